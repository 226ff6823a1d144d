# The man page leader.3 from the comments of leader.h, which are its only source: awk -f man.awk leader.h >leader.3
#
# The comment at the top is the description: capitals are headings, "- " begins a point, "word  text" explains a word, and under DO THIS
# everything that is indented is code. The declarations follow as they are, up to the line that says that one may stop there.

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/`/, "\\`", text)
    gsub(/'/, "\\(aq", text)
    if (text ~ /^[.]/) { text = "\\\\&" text }
    return text
}

function heading(text) {
    end_code()
    print ".SH " escaped(toupper(text))
    words = 0
}

# A heading fills its line, or the first twelve columns of it. "": there is none.
function heading_of(text,    first) {
    if (text ~ /^[A-Z][A-Z]+( [A-Z]+)*[?]?$/ || text ~ /^[A-Z][A-Z]+( [A-Z]+)*, [a-z]/) { return text }
    first = substr(text, 1, 12)
    if (first !~ /^[A-Z][A-Z]+[A-Z ]* $/) { return "" }
    sub(/ +$/, "", first)
    return first
}

function end_code() {
    if (in_code) { print ".EE"; in_code = 0 }
}

function code(text) {
    if (!in_code) { print ".EX"; in_code = 1 }
    print text == "" ? "" : escaped(text)
}

# One line of a section of the comment, without its indentation.
function line(text, indent,    word) {
    if (section == "DO THIS" && indent >= 7) { code(substr(text_with_indent, 8)); return }
    end_code()
    if (text ~ /^- /) { print ".IP \\(bu 2"; print escaped(substr(text, 3)); words = 0; bullet = indent; return }
    if (bullet && indent <= bullet) { print ".PP"; bullet = 0 }
    if (match(text, /^[A-Za-z0-9_.()]+( [a-z\/]+)?  +/) && !bullet) {
        word = substr(text, 1, RLENGTH)
        print ".TP"
        print ".B " escaped(substr(word, 1, match(word, / *$/) - 1))
        text = substr(text, length(word) + 1)
        words = indent
    } else if (words && indent <= words) {
        print ".PP"
        words = 0
    }
    gsub(/  +/, " ", text)
    if (text != "") { print escaped(text) }
}

FNR == 1 {
    split($0, parts, " - ")
    version = substr(parts[2], 2)
    printf ".TH LEADER 3 \"\" \"leader.h %s\" \"Library Functions Manual\"\n", version
    print ".SH NAME"
    print "leader.h \\- " escaped(parts[3])
    print ".SH SYNOPSIS"
    print ".EX"
    print "#define LEADER_IMPLEMENTATION  // in one file"
    print "#include \"leader.h\""
    print "cc app.c \\-pthread"
    print ".EE"
    print ".SH DESCRIPTION"
    part = "comment"
    next
}

part == "comment" {
    last = sub(/ *\*\/$/, "")
    text_with_indent = $0
    match($0, /^ */)
    indent = RLENGTH
    text = substr($0, indent + 1)
    if (text == "") {
        if (in_code) { code("") } else { print ".PP"; words = 0; bullet = 0 }
    } else if (indent == 3 && heading_of(text) != "") {
        section = heading_of(text)
        rest = section == text ? "" : substr(text, 13)
        heading(section)
        bullet = 0
        if (rest != "") { line(rest, 15) }
    } else {
        line(text, indent)
    }
    if (last) { end_code(); part = "between" }
    next
}

# X(LEADER_OK, 0, "ok") in the list of results.
part == "between" && match($0, /^ +X\(LEADER_[A-Z_]+, +-?[0-9]+, "/) {
    split($0, parts, "\"")
    name = $1
    gsub(/X\(|,/, "", name)
    result[++results] = name
    meaning[results] = parts[2]
}

part == "between" && /^\/\* ---- configuration/ { part = "declarations" }
part == "declarations" && /Stop here if you only want the API/ { exit }
part == "declarations" && /^\/\* =====/ { next }

part == "declarations" && match($0, /^\/\* ---- /) {
    title = substr($0, RLENGTH + 1)
    sub(/ *-*( *\*\/)? *$/, "", title)
    sub(/[.;:] .*/, "", title)                  # a title, and what else there is to say
    heading(title)
    in_comment = $0 !~ /\*\//
    next
}

part == "declarations" && in_comment {
    last = sub(/ *\*\/$/, "")
    sub(/^ +/, "")
    print $0 == "" ? ".PP" : escaped($0)
    in_comment = !last
    next
}

part == "declarations" {
    if ($0 ~ /^#(if|endif)/) { next }
    if ($0 == "" && !in_code) { next }
    code($0)
}

END {
    heading("results")
    for (i = 1; i <= results; i++) {
        print ".TP"
        print ".B " result[i]
        print escaped(meaning[i])
    }
    heading("see also")
    print ".BR leader\\-run (1)"
}
