# SPDX-License-Identifier: Apache-2.0
# Measures C files that are formatted as ours. Prints, tab-separated,
#   file        PATH       LINES  1  ALL_LINES  IFS  MACRO_LINES
#   lines       PATH:NAME  N      LINE
#   parameters  PATH:NAME  N      LINE
#   nesting     PATH:NAME  N      LINE
# Tables of data at file level do not count into LINES. It blanks comments, strings and preprocessor
# lines, then follows braces: a brace at file level after ")" opens a function.

function start_file() {
    if (path != "")
        end_file()
    path = FILENAME
    depth = in_comment = in_directive = ifs = macro = table_lines = n_lines = 0
    heading = previous = ""
}

function end_file() {
    printf "file\t%s\t%d\t1\t%d\t%d\t%d\n", path, n_lines - table_lines, n_lines, ifs, macro
}

# The line without comments, and with empty strings and characters.
function blank(s,    out, c, i, n, quote) {
    n = length(s)
    out = ""
    for (i = 1; i <= n; i++) {
        c = substr(s, i, 1)
        if (in_comment) {
            if (c == "*" && substr(s, i + 1, 1) == "/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote) {
                quote = ""
                out = out c
            }
        } else if (c == "/" && substr(s, i + 1, 1) == "*") {
            in_comment = 1
            i++
        } else if (c == "/" && substr(s, i + 1, 1) == "/") {
            break
        } else {
            if (c == "\"" || c == "'")
                quote = c
            out = out c
        }
    }
    return out
}

# Counts the parameters of the last (...) of a heading, and finds the name before it.
function read_heading(h,    i, c, level, commas, end) {
    commas = level = 0
    for (i = length(h); i > 0; i--) {
        c = substr(h, i, 1)
        if (c == ")" && ++level == 1)
            end = i
        else if (c == "," && level == 1)
            commas++
        else if (c == "(" && --level == 0)
            break
    }
    parameters = substr(h, i + 1, end - i - 1) ~ /^ *(void)? *$/ ? 0 : commas + 1
    name = substr(h, 1, i - 1)
    sub(/ +$/, "", name)
    # A test is named by its arguments: TT_TEST(suite, name).
    if (name ~ /^[A-Z_]+$/) {
        name = name h
        gsub(/^[A-Z_]+|[ ()]/, "", name)
        gsub(/,/, ".", name)
        parameters = 0
    }
    sub(/.*[ *]/, "", name)
}

# "block", "table" or "function" for the brace that follows the text so far.
function brace_kind(before,    last) {
    last = before
    sub(/ +$/, "", last)
    if (depth > 0 && kind[depth] == "table")
        return "table"
    if (last ~ /[=,(\[]$/ || last ~ /return$/ || before ~ /\)$/ && depth > 0)
        return "table"
    if (depth == 0 && last ~ /\)$/)
        return "function"
    return "block"
}

function open_brace(before,    k, top) {
    k = brace_kind(before)
    if (depth == 0 && before ~ /extern "" *$/) {
        transparent++
        return
    }
    top = depth == 0
    kind[++depth] = k
    if (top) {
        open_line = n_lines
        outer = k
        nesting = deepest = 0
        if (k == "function")
            read_heading(before)
    } else if (k == "block") {
        if (++nesting > deepest)
            deepest = nesting
    }
}

function close_brace() {
    if (depth == 0)
        return
    if (kind[depth] == "block")
        nesting--
    depth--
    if (depth > 0)
        return
    if (outer == "function") {
        printf "lines\t%s:%s\t%d\t%d\n", path, name, n_lines - open_line + 1, open_line
        printf "parameters\t%s:%s\t%d\t%d\n", path, name, parameters, open_line
        printf "nesting\t%s:%s\t%d\t%d\n", path, name, deepest, open_line
    } else if (outer == "table") {
        table_lines += n_lines - open_line
    }
    heading = ""
}

FNR == 1 { start_file() }
{
    n_lines++
    line = blank($0)
    directive = in_directive || line ~ /^ *#/
    if (directive) {
        if (!in_directive && line ~ /^ *# *(if|ifdef|ifndef|elif)/ && line !~ /__cplusplus/ && !(path ~ /\.h$/ && n_lines < 15 && line ~ /ifndef/))
            ifs++
        in_macro = in_directive ? in_macro : line ~ /^ *# *define/ && line ~ /\\$/
        macro += in_macro
        in_directive = line ~ /\\$/
        next
    }
    n = split(line, piece, /[{};]/)
    at = 0
    for (p = 1; p <= n; p++) {
        heading = heading piece[p]
        at += length(piece[p]) + 1
        c = p < n ? substr(line, at, 1) : ""
        if (c == "{") {
            open_brace(heading)
            heading = depth > 0 && kind[depth] == "table" ? "," : ""
        } else if (c == "}") {
            close_brace()
            heading = ""
        } else if (c == ";") {
            heading = ""
        }
    }
    if (heading != "" && heading !~ / $/)
        heading = heading " "
}
END { if (path != "") end_file() }
