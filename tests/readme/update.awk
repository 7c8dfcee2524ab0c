# Rewrites the blocks of README.md with what their commands print now. GOT is the prefix of the files GOT001, GOT002, ... with
# each block's transcript. A command's shown output keeps its form: stretches between "..." keep their number of lines; the
# first is taken from the beginning, the last from the end, one in the middle from where its first line's first words stand.
function begin_part() { n_want = 0; cut = 0 }
function flush_part(    i, k, from, to, at, n, key, first, last) {
    if (command == "") return
    n_got = 0
    while ((getline line < got) > 0) {
        if (line == next_command && next_command != "") break
        sub(/[ \t]+$/, "", line)
        out[++n_got] = line
    }
    if (!cut) { for (i = 1; i <= n_got; i++) print out[i]; return }
    at = 0
    for (from = 1; from <= n_want + 1; from = to + 2) {
        for (to = from - 1; to < n_want && want[to + 1] != "..."; to++);
        n = to - from + 1
        if (from > 1) print "..."
        if (n == 0) continue
        if (from > 1 && to == n_want) at = n_got - n
        else if (from > 1) {
            key = substr(want[from], 1, 8)
            if (key == "") { first = want[from + 1]; key = substr(first, 1, 8); last = 1 } else last = 0
            for (k = at + 1; k <= n_got && substr(out[k], 1, 8) != key; k++);
            at = k - 1 - last
        }
        for (i = 1; i <= n && at + i <= n_got; i++) print out[at + i]
        at += n
    }
}
/^```console/ && !inside {
    inside = 1; only = / one$/; got = sprintf("%s%03d", GOT, ++n); command = ""; print; getline line < got; next
}
inside && /^```/ { next_command = ""; flush_part(); close(got); inside = 0; command = ""; print; next }
inside && /^\$ / && !(only && command != "") { next_command = $0; flush_part(); command = $0; print; begin_part(); next }
inside { want[++n_want] = $0; if ($0 == "...") cut = 1; next }
{ print }
