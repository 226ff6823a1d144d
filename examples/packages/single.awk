# leader.h with the chosen backends in one file: awk -v stores="redis k8s" -f single.awk leader.h >leader_all.h
#
# Each '#include "backends/leader_X.h"' is replaced by that file, and the includes in it likewise; the rest stays as it is, to the byte. A store that was not
# chosen keeps its include line, behind its LEADER_WITH_... as before.

function chosen(name) { return (" " stores " ") ~ (" " name " ") || name == "http" }

function put(path,    line, name, from) {
    while ((getline line <path) > 0) {
        if (line !~ /^#[ \t]*include "(backends\/)?leader_[a-z0-9]+\.h"/) {
            print line
            continue
        }
        name = line
        sub(/.*leader_/, "", name)
        sub(/\.h".*/, "", name)
        from = "backends/leader_" name ".h"
        if (!chosen(name)) {
            print line
        } else if (!(name in done)) {
            done[name] = 1
            put(from)
        }
    }
    close(path)
}

BEGIN {
    print "/* Made from leader.h and backends/ by `make single`: do not edit. Stores: file" (stores == "" ? "" : " " stores) ". Each is switched on by its LEADER_WITH_..., as in leader.h. */"
    put(ARGV[1])
    exit
}
