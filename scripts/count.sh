#!/bin/bash
# count.sh LOG...: adds up the lines `test result: … N passed; N failed; N ignored` of cargo's tests, of terrace-e2e and of check.sh.
cat "$@" | awk '/^test result: / { for (i = 1; i < NF; i++) { n = $i + 0; w = $(i + 1); if (w ~ /^passed/) p += n; if (w ~ /^failed/) f += n; if (w ~ /^ignored/) s += n } }
     END { printf "%d %d %d\n", p, f, s }'
