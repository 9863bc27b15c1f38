import sys
names={}
for l in open('all.txt'):
    i,c,n=l.rstrip('\n').split('\t'); names[i]=(c,n)
from collections import Counter
tot=Counter();mis=Counter();out={}
seen={}
for l in open(sys.argv[1]):
    i,r,t=l.rstrip('\n').split('\t'); seen[i]=r
for i,r in seen.items():
    c,n=names[i]; tot[c]+=1
    if r=='MISSED': mis[c]+=1; out.setdefault(c,[]).append((int(i),n))
for c in tot: print(c,tot[c],mis[c],'%.1f%%'%(100-100*mis[c]/tot[c]))
for c in out:
    if len(sys.argv)>2 and c not in sys.argv[2:]: continue
    for i,n in sorted(out[c]): print(i,n.replace('crates/',''))
