import json,re,subprocess,sys
pk=sys.argv[1].split(','); 
for it in range(8):
    subprocess.run(['bash','gen.sh'])
    cmd=['cargo','check','--locked','--keep-going','--message-format=json','--config','profile.dev.debug=0','--config','profile.dev.package."*".debug=true']
    for p in pk: cmd+=['-p','wakepath-'+p]
    r=subprocess.run(cmd,cwd='tree2',stdout=subprocess.PIPE,stderr=subprocess.PIPE,env=dict(__import__('os').environ,CARGO_TARGET_DIR='./tgt'))
    drop=set();un=[]
    for l in r.stdout.decode().splitlines():
        try: m=json.loads(l)
        except Exception: continue
        if m.get('reason')!='compiler-message' or m['message']['level']!='error': continue
        got=False
        for sp in m['message']['spans']:
            if not sp['is_primary']: continue
            s=sp
            while s.get('expansion') : s=s['expansion']['span']
            f='tree2/'+s['file_name']; lines=open(f).read().split('\n')
            ln=lines[s['line_start']-1]; before=ln[:s['column_start']-1+40]
            ids=re.findall(r'mutant_switch::on\((\d+)\)',before)
            if ids: drop.add(ids[-1]); got=True
            else:
                ids=re.findall(r'mutant_switch::on\((\d+)\)',ln); drop.update(ids); got=got or bool(ids)
                if not ids:
                    for up in range(sp['line_start']-1,-1,-1):
                        ids=re.findall(r'mutant_switch::on\((\d+)\) \{ return',lines[up])
                        if ids: drop.update(ids); got=True; break
        if (m['message'].get('code') or {}).get('code')=='E0004':
            got=True
            ids=re.findall(r'if !crate::mutant_switch::on\((\d+)\)','\n'.join(lines[sp['line_start']-1:sp['line_start']+45])); drop.update(ids[:12])
        if not got and m['message']['spans']: un.append(m['message']['rendered'][:400])
    print(it,r.returncode,len(drop),'dropped',len(un),'unplaced'); 
    for u in un[:4]: print(u)
    if r.returncode==0: break
    if not drop:
        print(r.stderr.decode()[-800:]); break
    open('dropped.txt','a').write(' '.join(drop)+'\n')
