# healthy: make compiles two files of C at once
# needs: make
# needs: cc
# ask: record -- make -j2
for part in one two; do
    for n in $(seq 800); do echo "int ${part}_$n(int a) { for (int i = 0; i < a; i++) a ^= i * $n; return a; }"; done >$part.c
done
printf 'all: one.o two.o\n%%.o: %%.c\n\tcc -O1 -c $<\n' >Makefile
echo ready >>"$PLANTED"
sleep 60
