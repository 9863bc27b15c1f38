# cause: a makefile calls `make` and not `$(MAKE)`: the inner make runs its four jobs of 500 ms one after another, in spite of -j4
# size: 2 s
# needs: make
# ask: record -- sh victim
# who: make
# who: sleep
# says: one after another
# short: sleeping
# json: contributors kind=timer comm=sleep
# twin: one after another
mkdir -p inner
[ "$TWIN" ] && make='$(MAKE)' || make=make
printf 'all:\n\t%s -C inner all\n' "$make" >Makefile
printf 'all: a b c d\na b c d:\n\tsleep 0.5\n' >inner/Makefile
cat >victim <<SH
began=\$(date +%s%N)
make -j4 >/dev/null 2>&1
echo "twin \$(((\$(date +%s%N) - began) / 1000000 - 500))e-3" >>$PLANTED
SH
echo ready >>"$PLANTED"
sleep 60
