#!/bin/sh
# ptxas_notes.sh NVCC ARGUMENT...: compiles, and keeps what ptxas -v says of the kernels beside the object, as OBJECT.ptxas, instead of
# printing it. Everything else that nvcc says is printed.
object=
previous=
for argument in "$@"; do
    [ "$previous" = -o ] && object=$argument
    previous=$argument
done
"$@" 2> "$object.said"
status=$?
kept='^ptxas info +: (Compiling entry function|Function properties for|Used )|^ +[0-9]+ bytes stack frame'
grep -E "$kept" "$object.said" > "$object.ptxas"
grep -Ev "$kept|^ptxas info +: (Compile time|[0-9]+ bytes gmem)" "$object.said" >&2
rm -f "$object.said"
exit $status
