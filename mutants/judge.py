# judge.py BINS.json OUT N...   : runs the test binaries for each mutant, prints the first failing tests
import json,sys,os,subprocess,re,time
bins=[]
for l in open(sys.argv[1]):
    try: m=json.loads(l)
    except Exception: continue
    if m.get('reason')=='compiler-artifact' and m.get('executable') and m['profile']['test']:
        bins.append((m['target']['name'],m['package_id'],m['executable'],m['target']['src_path']))
order={'cases':1,'drawings':2,'chain':3,'hostile':8,'simulated':9,'recorded_losses':10}
bins.sort(key=lambda b:(order.get(b[0],5 if '/tests/' in b[3] else 0),b[2]))
pk=os.environ.get('PKG')
if pk: bins=[b for b in bins if any('/'+p+'/' in b[3] for p in pk.split(','))]
if os.environ.get('ONLY'): bins=[b for b in bins if b[0] in os.environ['ONLY'].split(',')]
if os.environ.get('NOT'): bins=[b for b in bins if b[0] not in os.environ['NOT'].split(',')]
out=open(sys.argv[2],'a')
env=dict(os.environ,PROPTEST_DISABLE_FAILURE_PERSISTENCE='1',PROPTEST_MAX_SHRINK_ITERS='0',RUST_BACKTRACE='0')
allof=os.environ.get('ALL')
limit=int(os.environ.get('LIMIT','60'))
for n in sys.argv[3:]:
    env['WAKEPATH_MUTANT']=n
    res=[];t0=time.time()
    for name,pkg,exe,src in bins:
        cwd=src.split('/tests/')[0] if '/tests/' in src else src.split('/src/')[0]
        try:
            r=subprocess.run(['nice','-n','10',exe,'-q','--test-threads','2'],env=env,cwd=cwd,stdout=subprocess.PIPE,stderr=subprocess.STDOUT,timeout=limit)
        except subprocess.TimeoutExpired:
            res.append(name+'::TIMEOUT'); 
            if not allof: break
            continue
        if r.returncode:
            t=r.stdout.decode(errors='replace')
            f=sorted(set(re.findall(r'^    (\S+)$',t.split('failures:')[-1],re.M)))
            d=re.findall(r'/cases/(\S+) answers',t)
            res.append(name+':: '+(','.join(f) or 'rc%d'%r.returncode)+(' ['+','.join(d[:6])+(' …%d'%len(d) if len(d)>6 else '')+']' if d else ''))
            if not allof: break
    line='%s\t%s\t%.1f'%(n,' ; '.join(res) or 'MISSED',time.time()-t0)
    print(line,flush=True); out.write(line+'\n'); out.flush()
