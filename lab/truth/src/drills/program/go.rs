//! A program in Go.

use std::fmt::Write;

use super::{Culprit, How, Program, braced, name};

impl Program {
    pub(super) fn go_source(&self) -> String {
        let culprit = match self.culprit {
            Culprit::Computes => "computes",
            Culprit::Sleeps => "sleeps",
            Culprit::Locks => "locks",
            Culprit::Reads => "reads",
        };
        let ways: Vec<String> = self.planted.iter().map(|way| braced(way)).collect();
        let mut text = format!(
            "{HEAD}\nconst (\n\tdepth        = {}\n\tfanOut       = {}\n\tthreads      = {}\n\tms           = {}\n\
             \tculprit      = \"{culprit}\"\n\tnumberOfWays = {}\n)\n\nvar ways = [numberOfWays][depth]int{{{}}}\n\n",
            self.planted[0].len(),
            self.first.len(),
            self.threads,
            self.ms,
            ways.len(),
            ways.join(", "),
        );
        let mut virtually = Vec::new();
        for at in self.all() {
            for (place, site) in self.sites_of(at.0, at.1).iter().enumerate() {
                let callee = (at.0 + 1, site.callee);
                match site.how {
                    How::ByPointer => {
                        let _ = writeln!(text, "var p_{}_{place} = {}\n", name(at), name(callee));
                    }
                    How::Virtually if !virtually.contains(&callee) => virtually.push(callee),
                    _ => {}
                }
            }
        }
        for at in virtually {
            let own = name(at);
            // The method with the function's name has the same code; a call to the method is no call to the function.
            let _ = writeln!(
                text,
                "type b{own} interface{{ {own}(c *call, goesOn bool) uint64 }}\n\ntype v{own} struct{{}}\n\n\
                 var o_{own} b{own} = &v{own}{{}}\n\n//go:noinline\nfunc (v *v{own}) {own}(c *call, goesOn bool) uint64 {{\n{}}}\n",
                self.go_body(at, &format!("v.{own}(c, false)"))
            );
        }
        for at in self.all() {
            let own = name(at);
            let _ = writeln!(
                text,
                "//go:noinline\nfunc {own}(c *call, goesOn bool) uint64 {{\n{}}}\n",
                self.go_body(at, &format!("{own}(c, false)"))
            );
        }
        text
    }

    fn go_body(&self, at: (usize, usize), itself: &str) -> String {
        let own = name(at);
        let mut text = "\tx := c.sum\n\tif !goesOn {\n\t\treturn x + work(20)\n\t}\n".to_owned();
        if self.recursive.contains(&at) {
            let _ = writeln!(text, "\tx += {itself}");
        }
        for (number, way) in (1..).zip(&self.planted) {
            if self.functions_on(way).last() == Some(&at) {
                let _ = writeln!(text, "\tif c.way == {number} {{\n\t\tx += takeTime()\n\t}}");
            }
        }
        let sites = self.sites_of(at.0, at.1);
        if !sites.is_empty() {
            text += "\tvar on bool\n";
        }
        for (place, site) in sites.iter().enumerate() {
            let callee = name((at.0 + 1, site.callee));
            // A call goes on at a single place on each level; `f0` follows two ways if there are two culprits.
            let on = match at.0 {
                0 => format!("enters(c, {place})"),
                level => format!("c.ways[c.way][{level}] == {place}"),
            };
            let call = match site.how {
                How::ByPointer => format!("p_{own}_{place}(c, on)"),
                How::Virtually => format!("o_{callee}.{callee}(c, on)"),
                _ => format!("{callee}(c, on)"),
            };
            let _ = writeln!(text, "\ton = {on}");
            let _ = match site.how {
                How::Sometimes => {
                    writeln!(text, "\tif on || (c.number+{place})%3 != 0 {{\n\t\tx += {call}\n\t}}")
                }
                How::InALoop(times) => writeln!(
                    text,
                    "\tfor i := 0; i < {times}; i++ {{\n\t\tx += {call}\n\t\tif on {{\n\t\t\tbreak\n\t\t}}\n\t}}"
                ),
                // Go's compiler makes no jump here.
                How::InTheLastPlace
                | How::ByPointerInTheLastPlace
                | How::Directly
                | How::ByPointer
                | How::Virtually => {
                    writeln!(text, "\tx += {call}")
                }
            };
        }
        text += "\tc.sum += x\n\treturn x\n";
        text
    }
}

const HEAD: &str = include_str!("../head.go");
