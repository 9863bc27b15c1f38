//! Rewrites the sources of a tree so that each mutant of `cargo mutants --list --json` is a branch on the variable WAKEPATH_MUTANT: one
//! build then judges all of them, in about 0.3 s of CPU each. A sketch: gen.sh writes the tree, fix.py drops what does not compile,
//! build.sh builds the tests, judge.py runs them for each mutant, surv.py lists those that no test noticed.
use proc_macro2::{LineColumn, Span};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

#[derive(Clone, Debug)]
struct M {
    id: u64,
    genre: String,
    repl: String,
    start: (usize, usize),
    line: usize,
}
enum Kind {
    Guard(Vec<M>),
    Bin { l: (usize, usize), op: (usize, usize), r: (usize, usize), ms: Vec<M> },
    Un { e: (usize, usize), ms: Vec<M> },
    Fn(Vec<M>),
    ArmNew(u64),
    ArmAnd(u64),
}
struct Node {
    s: usize,
    e: usize,
    pri: u8,
    kind: Kind,
}

struct V<'a> {
    src: &'a str,
    lines: Vec<usize>,
    at: HashMap<(usize, usize), Vec<M>>,
    nodes: Vec<Node>,
    konst: u32,
    used: HashSet<u64>,
    bodies: Vec<M>,
    arms: HashMap<(usize, usize), Vec<M>>,
    guards: HashMap<(usize, usize), Vec<M>>,
    fns: HashMap<(usize, usize), Vec<M>>,
}
impl V<'_> {
    fn off(&self, lc: LineColumn) -> usize {
        let base = self.lines[lc.line - 1];
        let line = &self.src[base..];
        base + line.char_indices().nth(lc.column).map_or(line.len(), |(i, _)| i)
    }
    fn range(&self, sp: Span) -> (usize, usize) {
        (self.off(sp.start()), self.off(sp.end()))
    }
    fn key(&self, sp: Span) -> (usize, usize) {
        let s = sp.start();
        (s.line, s.column + 1)
    }
}
fn has_let(e: &syn::Expr) -> bool {
    match e {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(b) if matches!(b.op, syn::BinOp::And(_)) => has_let(&b.left) || has_let(&b.right),
        _ => false,
    }
}
impl<'ast> Visit<'ast> for V<'_> {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        let k = f.sig.constness.is_some() as u32;
        self.konst += k;
        if k == 0 {
            self.body(&f.block)
        }
        visit::visit_item_fn(self, f);
        self.konst -= k;
    }
    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        let k = f.sig.constness.is_some() as u32;
        self.konst += k;
        if k == 0 {
            self.body(&f.block)
        }
        visit::visit_impl_item_fn(self, f);
        self.konst -= k;
    }
    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(b) = &f.default {
            self.body(b)
        }
        visit::visit_trait_item_fn(self, f);
    }
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if m.attrs
            .iter()
            .any(|a| format!("{:?}", a.meta).contains("\"test\"") || a.meta.path().is_ident("cfg"))
        {
            return;
        }
        visit::visit_item_mod(self, m)
    }
    fn visit_expr_binary(&mut self, b: &'ast syn::ExprBinary) {
        let k = self.key(b.op.span());
        if self.konst == 0
            && let Some(ms) = self.at.get(&k).cloned()
            && !has_let(&b.left)
            && !has_let(&b.right)
        {
            let (s, e) = self.range(b.span());
            let kind = Kind::Bin {
                l: self.range(b.left.span()),
                op: self.range(b.op.span()),
                r: self.range(b.right.span()),
                ms: ms.clone(),
            };
            for m in &ms {
                self.used.insert(m.id);
            }
            self.nodes.push(Node { s, e, pri: 3, kind });
        }
        visit::visit_expr_binary(self, b);
    }
    fn visit_expr_unary(&mut self, u: &'ast syn::ExprUnary) {
        let k = self.key(u.op.span());
        if self.konst == 0
            && let Some(ms) = self.at.get(&k).cloned()
        {
            let ms: Vec<_> = ms.into_iter().filter(|m| m.genre == "UnaryOperator").collect();
            if !ms.is_empty() {
                let (s, e) = self.range(u.span());
                for m in &ms {
                    self.used.insert(m.id);
                }
                self.nodes.push(Node { s, e, pri: 3, kind: Kind::Un { e: self.range(u.expr.span()), ms } });
            }
        }
        visit::visit_expr_unary(self, u);
    }
    fn visit_arm(&mut self, a: &'ast syn::Arm) {
        if self.konst == 0 {
            if let Some((_, g)) = &a.guard {
                let k = self.key(g.span());
                if let Some(ms) = self.guards.get(&k).cloned()
                    && !has_let(g)
                {
                    for m in &ms {
                        self.used.insert(m.id);
                    }
                    let (s, e) = self.range(g.span());
                    self.nodes.push(Node { s, e, pri: 2, kind: Kind::Guard(ms) });
                }
            }
            let k = self.key(a.span());
            if let Some(ms) = self.arms.get(&k).cloned() {
                let m = &ms[0];
                self.used.insert(m.id);
                match &a.guard {
                    Some((_, g)) => {
                        let (s, _) = self.range(g.span());
                        if !has_let(g) {
                            self.nodes.push(Node { s, e: s, pri: 0, kind: Kind::ArmAnd(m.id) });
                            let e = self.range(g.span()).1;
                            self.nodes.push(Node { s: e, e, pri: 9, kind: Kind::ArmAnd(0) });
                        }
                    }
                    None => {
                        let (_, e) = self.range(a.pat.span());
                        self.nodes.push(Node { s: e, e, pri: 0, kind: Kind::ArmNew(m.id) });
                    }
                }
            }
        }
        visit::visit_arm(self, a);
    }
}
impl V<'_> {
    fn body(&mut self, b: &syn::Block) {
        let open = b.brace_token.span.open();
        let inside = self.off(open.end());
        let k = self.key(open);
        let mut ms: Vec<M> = self.fns.get(&k).cloned().unwrap_or_default();
        if ms.is_empty()
            && let Some(first) = b.stmts.first()
        {
            ms = self.fns.get(&self.key(first.span())).cloned().unwrap_or_default();
        }
        if ms.is_empty() {
            return;
        }
        for m in &ms {
            self.used.insert(m.id);
        }
        self.nodes.push(Node { s: inside, e: inside, pri: 1, kind: Kind::Fn(ms) });
    }
}
fn raw(src: &str) -> String {
    src.parse::<proc_macro2::TokenStream>()
        .map(|t| t.to_string().replace('\n', " "))
        .unwrap_or_else(|_| src.to_owned())
}
fn on(id: u64) -> String {
    format!("crate::mutant_switch::on({id})")
}
fn emit(src: &str, nodes: &[Node], from: usize, s: usize, e: usize, out: &mut String) {
    let mut at = s;
    let mut i = from;
    while i < nodes.len() {
        let n = &nodes[i];
        if n.s < at || n.e > e {
            i += 1;
            continue;
        }
        if n.s > e {
            break;
        }
        out.push_str(&src[at..n.s]);
        match &n.kind {
            Kind::Fn(ms) => {
                for m in ms {
                    out.push_str(&format!(
                        " if {} {{ return {}; }} ",
                        on(m.id),
                        if m.repl.trim() == "()" { String::new() } else { m.repl.clone() }
                    ))
                }
            }
            Kind::ArmNew(id) => out.push_str(&format!(" if !{} ", on(*id))),
            Kind::ArmAnd(0) => out.push(')'),
            Kind::ArmAnd(id) => out.push_str(&format!("!{} && (", on(*id))),
            Kind::Guard(ms) => {
                out.push('(');
                for m in ms {
                    out.push_str(&format!("if {} {{ {} }} else ", on(m.id), m.repl))
                }
                out.push_str("{ ");
                emit(src, nodes, i + 1, n.s, n.e, out);
                out.push_str(" })");
            }
            Kind::Bin { l, op, r, ms } => {
                out.push('(');
                for m in ms {
                    out.push_str(&format!(
                        "if {} {{ {} {} {} }} else ",
                        on(m.id),
                        raw(&src[l.0..l.1]),
                        m.repl,
                        raw(&src[r.0..r.1])
                    ))
                }
                out.push_str("{ ");
                emit(src, nodes, i + 1, l.0, l.1, out);
                out.push_str(&src[l.1..op.0]);
                out.push_str(&src[op.0..op.1]);
                out.push_str(&src[op.1..r.0]);
                emit(src, nodes, i + 1, r.0, r.1, out);
                out.push_str(" })");
            }
            Kind::Un { e: x, ms } => {
                out.push('(');
                for m in ms {
                    out.push_str(&format!("if {} {{ {} }} else ", on(m.id), raw(&src[x.0..x.1])))
                }
                out.push_str("{ ");
                out.push_str(&src[n.s..x.0]);
                emit(src, nodes, i + 1, x.0, x.1, out);
                out.push_str(" })");
            }
        }
        at = n.e;
        let end = n.e;
        let zero = n.s == n.e;
        i += 1;
        if !zero {
            while i < nodes.len() && nodes[i].s < end {
                i += 1;
            }
        }
    }
    out.push_str(&src[at..e]);
}
fn main() {
    // schemata ROOT_IN ROOT_OUT mutants.json dropped.txt
    let a: Vec<String> = std::env::args().collect();
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&a[3]).unwrap()).unwrap();
    let dropped: HashSet<u64> = fs::read_to_string(&a[4])
        .unwrap_or_default()
        .split_whitespace()
        .map(|w| w.parse().unwrap())
        .collect();
    let mut files: BTreeMap<String, Vec<M>> = BTreeMap::new();
    for (i, m) in json.as_array().unwrap().iter().enumerate() {
        let id = i as u64 + 1;
        if dropped.contains(&id) {
            continue;
        }
        let p = &m["span"]["start"];
        let start = (p["line"].as_u64().unwrap() as usize, p["column"].as_u64().unwrap() as usize);
        files.entry(m["file"].as_str().unwrap().into()).or_default().push(M {
            id,
            genre: m["genre"].as_str().unwrap().into(),
            repl: m["replacement"].as_str().unwrap().into(),
            start,
            line: start.0,
        });
    }
    let (mut done, mut skipped) = (0, Vec::new());
    for (file, ms) in files {
        let src = fs::read_to_string(format!("{}/{file}", a[1])).unwrap();
        let ast = syn::parse_file(&src).unwrap();
        let mut lines = vec![0];
        lines.extend(src.char_indices().filter(|(_, c)| *c == '\n').map(|(i, _)| i + 1));
        let group = |g: &[&str]| {
            let mut map: HashMap<(usize, usize), Vec<M>> = HashMap::new();
            for m in ms.iter().filter(|m| g.contains(&m.genre.as_str())) {
                map.entry(m.start).or_default().push(m.clone());
            }
            map
        };
        let mut v = V {
            src: &src,
            lines,
            at: group(&["BinaryOperator", "UnaryOperator"]),
            guards: group(&["MatchArmGuard"]),
            arms: group(&["MatchArm"]),
            fns: group(&["FnValue"]),
            nodes: Vec::new(),
            konst: 0,
            used: HashSet::new(),
            bodies: Vec::new(),
        };
        v.visit_file(&ast);
        let V { mut nodes, used, .. } = v;
        nodes.sort_by_key(|n| (n.s, std::cmp::Reverse(n.e), n.pri));
        // A zero-length node at the start of a range comes before the range.
        nodes.sort_by_key(|n| {
            (n.s, if n.s == n.e && n.pri != 9 { 0 } else { 1 }, std::cmp::Reverse(n.e), n.pri)
        });
        let mut out = String::new();
        emit(&src, &nodes, 0, 0, src.len(), &mut out);
        if file.ends_with("src/lib.rs") {
            out.push_str(SWITCH)
        }
        assert_eq!(
            out.matches('\n').count(),
            src.matches('\n').count()
                + if file.ends_with("src/lib.rs") { SWITCH.matches('\n').count() } else { 0 },
            "{file}"
        );
        fs::write(format!("{}/{file}", a[2]), out).unwrap();
        done += used.len();
        skipped.extend(ms.iter().filter(|m| !used.contains(&m.id)).map(|m| m.id));
    }
    eprintln!("{done} in, {} not", skipped.len());
    fs::write(
        format!("{}/skipped.txt", a[2]),
        skipped.iter().map(u64::to_string).collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
}
const SWITCH: &str = r#"
#[doc(hidden)]
#[allow(missing_docs)]
pub mod mutant_switch {
    pub fn on(n: u32) -> bool {
        static M: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        *M.get_or_init(|| std::env::var("WAKEPATH_MUTANT").ok().and_then(|v| v.parse().ok()).unwrap_or(0)) == n
    }
}
"#;
