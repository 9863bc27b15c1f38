//! A program in Python.

use std::fmt::Write;

use super::{Culprit, How, Program, name};

impl Program {
    pub(super) fn python_source(&self) -> String {
        let culprit = match self.culprit {
            Culprit::Computes => "computes",
            Culprit::Sleeps => "sleeps",
            Culprit::Locks => "locks",
            Culprit::Reads => "reads",
        };
        let mut text = format!(
            "DEPTH = {}\nFAN_OUT = {}\nTHREADS = {}\nMS = {}\nCULPRIT = \"{culprit}\"\nWAYS = {:?}\n\n{HEAD}\n\n",
            self.planted[0].len(),
            self.first.len(),
            self.threads,
            self.ms,
            self.planted
        );
        let mut virtually = Vec::new();
        for at in self.all() {
            for site in self.sites_of(at.0, at.1) {
                let callee = (at.0 + 1, site.callee);
                if site.how == How::Virtually && !virtually.contains(&callee) {
                    virtually.push(callee);
                }
            }
        }
        for &at in &virtually {
            let own = name(at);
            // The method with the function's name has the same code; a call to the method is no call to the function.
            let body = self.python_body(at, &format!("self.{own}(c, False)"), "        ");
            let _ = writeln!(text, "class V{own}:\n    def {own}(self, c, goes_on):\n{body}\n");
        }
        for at in self.all() {
            let own = name(at);
            let body = self.python_body(at, &format!("{own}(c, False)"), "    ");
            let _ = writeln!(text, "def {own}(c, goes_on):\n{body}\n");
        }
        for at in virtually {
            let _ = writeln!(text, "o_{0} = V{0}()", name(at));
        }
        for at in self.all() {
            for (place, site) in self.sites_of(at.0, at.1).iter().enumerate() {
                if site.how == How::ByPointer {
                    let _ = writeln!(text, "p_{}_{place} = {}", name(at), name((at.0 + 1, site.callee)));
                }
            }
        }
        text += "main()\n";
        text
    }

    fn python_body(&self, at: (usize, usize), itself: &str, indent: &str) -> String {
        let own = name(at);
        let mut lines = vec![
            "if not goes_on:".to_owned(),
            "    return work(20)".to_owned(),
            "x = goes_on_after()".to_owned(),
        ];
        if self.recursive.contains(&at) {
            lines.push(format!("x += {itself}"));
        }
        for (number, way) in (1..).zip(&self.planted) {
            if self.functions_on(way).last() == Some(&at) {
                lines.push(format!("if c.way == {number}:"));
                lines.push("    x += take_time()".to_owned());
            }
        }
        for (place, site) in self.sites_of(at.0, at.1).iter().enumerate() {
            let callee = name((at.0 + 1, site.callee));
            // A call goes on at a single place on each level; `f0` follows two ways if there are two culprits.
            let on = match at.0 {
                0 => format!("enters(c, {place})"),
                level => format!("c.ways[c.way][{level}] == {place}"),
            };
            lines.push(format!("on = {on}"));
            match site.how {
                How::Sometimes => {
                    lines.push(format!("if on or (c.number + {place}) % 3:"));
                    lines.push(format!("    x += {callee}(c, on)"));
                }
                How::InALoop(times) => {
                    lines.push(format!("for _ in range(1 if on else {times}):"));
                    lines.push(format!("    x += {callee}(c, on)"));
                }
                How::ByPointer => lines.push(format!("x += p_{own}_{place}(c, on)")),
                How::Virtually => lines.push(format!("x += o_{callee}.{callee}(c, on)")),
                How::InTheLastPlace | How::ByPointerInTheLastPlace => {
                    lines.push(format!("return {callee}(c, on)"));
                }
                // Calls by the interpreter's own code, and by a generator.
                How::Directly if place % 4 == 1 => {
                    lines.push(format!("x += sum(map({callee}, (c,), (on,)))"));
                }
                How::Directly if place % 4 == 3 => {
                    lines.push(format!("x += sum({callee}(c, one) for one in (on,))"));
                }
                How::Directly => lines.push(format!("x += {callee}(c, on)")),
            }
        }
        lines.push("return x & MASK".to_owned());
        lines.iter().map(|line| format!("{indent}{line}\n")).collect()
    }
}

const HEAD: &str = include_str!("../head.py");
