/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program: sees only what was installed. */
int main(void)
{
    return 0;
}
