/* SPDX-License-Identifier: Apache-2.0 */
/* What NVRTC knows without being told, as far as kernels use it: clang has the language, but not CUDA's own headers.
 * Nothing here is run. */
#define __CUDACC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))

struct dim3 {
    unsigned x, y, z;
};
extern const __device__ dim3 threadIdx, blockIdx, gridDim;

extern "C" __device__ void __syncthreads();
__device__ unsigned __umulhi(unsigned, unsigned);
__device__ unsigned long long __umul64hi(unsigned long long, unsigned long long);
__device__ unsigned __float_as_uint(float);
__device__ float __uint_as_float(unsigned);
__device__ long long __double_as_longlong(double);
__device__ double __longlong_as_double(long long);
__device__ unsigned atomicCAS(unsigned *, unsigned, unsigned);
__device__ unsigned long long atomicCAS(unsigned long long *, unsigned long long,
                                        unsigned long long);

/* Mathematics, for float and double alike. */
#define ONE(name)                 \
    __device__ float name(float); \
    __device__ double name(double)
#define TWO(name)                        \
    __device__ float name(float, float); \
    __device__ double name(double, double)
ONE(fabs);
ONE(sqrt);
ONE(exp);
ONE(exp2);
ONE(expm1);
ONE(log);
ONE(log2);
ONE(log10);
ONE(log1p);
ONE(erf);
ONE(floor);
ONE(ceil);
ONE(trunc);
ONE(rint);
ONE(sin);
ONE(cos);
ONE(tan);
ONE(sinh);
ONE(cosh);
ONE(tanh);
TWO(copysign);
TWO(pow);
TWO(hypot);
TWO(atan2);
TWO(fmod);
#undef ONE
#undef TWO
__device__ float fma(float, float, float);
__device__ double fma(double, double, double);
__device__ bool isinf(float);
__device__ bool isinf(double);
