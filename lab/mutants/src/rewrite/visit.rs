//! Finds each mutant's code in the syntax tree, and puts its switch there.

use std::collections::{BTreeSet, HashMap, HashSet};

use proc_macro2::Span;
use syn::Expr;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::insert::Inserts;
use super::{Extent, on};
use crate::mutant::{Genre, Mutant, Position};

/// The walk through a file.
pub struct Visitor<'a> {
    source: &'a str,
    /// The mutants to find, by genre and position.
    listed: HashMap<(Genre, Position), Vec<&'a Mutant>>,
    keep_const: &'a HashSet<String>,
    /// The number of surrounding functions evaluated by the compiler.
    evaluated: u32,
    pub inserts: Inserts,
    pub switched: BTreeSet<u32>,
    pub freed: BTreeSet<String>,
}

impl<'a> Visitor<'a> {
    pub fn new(source: &'a str, mutants: &[&'a Mutant], keep_const: &'a HashSet<String>) -> Self {
        let mut listed: HashMap<_, Vec<_>> = HashMap::new();
        for mutant in mutants {
            listed.entry((mutant.genre, mutant.at)).or_default().push(*mutant);
        }
        Self {
            source,
            listed,
            keep_const,
            evaluated: 0,
            inserts: Inserts::default(),
            switched: BTreeSet::new(),
            freed: BTreeSet::new(),
        }
    }

    /// The mutants with this genre at a span's beginning, which get their switches now.
    fn take(&mut self, genre: Genre, span: Span) -> Vec<&'a Mutant> {
        if self.evaluated > 0 {
            return Vec::new();
        }
        let mutants = self.listed.remove(&(genre, position(span))).unwrap_or_default();
        self.switched.extend(mutants.iter().map(|mutant| mutant.number));
        mutants
    }

    fn code(&self, node: impl Spanned) -> &'a str {
        &self.source[node.span().byte_range()]
    }

    /// Prepares for a function's body; true if the compiler evaluates it.
    fn enter(&mut self, signature: &syn::Signature, block: &syn::Block) -> bool {
        let name = signature.ident.to_string();
        let (from, to) = (position(block.span()), position_of(block.span().end()));
        let is_mutated = self.listed.keys().any(|(_, at)| (from..to).contains(at));
        if let Some(word) = signature.constness.filter(|_| is_mutated && !self.keep_const.contains(&name)) {
            let range = word.span().byte_range();
            self.inserts.point(range.start, "/*");
            self.inserts.point(range.end, "*/");
            self.freed.insert(name);
        } else if signature.constness.is_some() {
            return true;
        }
        self.inserts.around(block.span().byte_range(), Extent::Function, &[], ("", ""));
        // A value with another type than the body's would change an opaque return type.
        let is_opaque = self.code(&signature.output).contains("impl ");
        let first = block.stmts.first().filter(|_| !is_opaque);
        if let Some(first) = first {
            let mutants = self.take(Genre::FnValue, first.span());
            self.inserts.returns(block.brace_token.span.open().byte_range().end, &mutants);
        }
        false
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block, visit: impl FnOnce(&mut Self)) {
        let is_evaluated = self.enter(signature, block);
        self.evaluated += u32::from(is_evaluated);
        visit(self);
        self.evaluated -= u32::from(is_evaluated);
    }
}

fn position(span: Span) -> Position {
    position_of(span.start())
}

fn position_of(at: proc_macro2::LineColumn) -> Position {
    (at.line, at.column + 1)
}

/// True if an expression binds names by `let`: it can stand only in its own condition.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(it) if matches!(it.op, syn::BinOp::And(_)) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.sig, &it.block, |this| visit::visit_item_fn(this, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(&it.sig, &it.block, |this| visit::visit_impl_item_fn(this, it));
    }

    fn visit_trait_item_fn(&mut self, it: &'ast syn::TraitItemFn) {
        if let Some(block) = &it.default {
            self.function(&it.sig, block, |this| visit::visit_trait_item_fn(this, it));
        }
    }

    // The compiler evaluates these: constants, array lengths, variant numbers, arguments of types and patterns.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_repeat(&mut self, it: &'ast syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_expr_binary(&mut self, it: &'ast syn::ExprBinary) {
        if !has_let(&it.left) && !has_let(&it.right) {
            let mutants = self.take(Genre::BinaryOperator, it.op.span());
            if !mutants.is_empty() {
                let (left, right) = (self.code(&it.left), self.code(&it.right));
                let code = |mutant: &Mutant| format!("({left}) {} ({right})", mutant.replacement);
                self.inserts.choose(it.span().byte_range(), &mutants, code);
            }
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast syn::ExprUnary) {
        let mutants = self.take(Genre::UnaryOperator, it.op.span());
        if !mutants.is_empty() {
            let operand = self.code(&it.expr);
            self.inserts.choose(it.span().byte_range(), &mutants, |_| format!("({operand})"));
        }
        visit::visit_expr_unary(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let is_free = |arm: &&syn::Arm| arm.guard.as_ref().is_none_or(|(_, guard)| !has_let(guard));
        let mut deleted = Vec::new();
        for arm in it.arms.iter().filter(is_free) {
            let mutants = self.take(Genre::MatchArm, arm.span());
            for mutant in &mutants {
                let off = format!("!{}", on(mutant.number));
                match &arm.guard {
                    Some((_, guard)) => {
                        let texts = (&*format!("{off} && ("), ")");
                        self.inserts.around(guard.span().byte_range(), Extent::Choice, &[mutant], texts);
                    }
                    None => self.inserts.point(arm.pat.span().byte_range().end, format!(" if {off}")),
                }
            }
            deleted.extend(mutants);
            if let Some((_, guard)) = &arm.guard {
                let mutants = self.take(Genre::MatchArmGuard, guard.span());
                if !mutants.is_empty() {
                    let range = guard.span().byte_range();
                    self.inserts.choose(range, &mutants, |mutant| mutant.replacement.clone());
                }
            }
        }
        if !deleted.is_empty() {
            self.inserts.around(it.span().byte_range(), Extent::Match, &deleted, ("", ""));
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        let mut mutants = Vec::new();
        let mut without = HashMap::new();
        let range = it.span().byte_range();
        for pair in it.fields.pairs() {
            let field = pair.value().span().byte_range();
            let end = pair.punct().map_or(field.end, |comma| comma.span().byte_range().end);
            for mutant in self.take(Genre::StructField, pair.value().span()) {
                let code = [&self.source[range.start..field.start], &self.source[end..range.end]].concat();
                without.insert(mutant.number, code);
                mutants.push(mutant);
            }
        }
        if !mutants.is_empty() {
            self.inserts.choose(range, &mutants, |mutant| without[&mutant.number].clone());
        }
        visit::visit_expr_struct(self, it);
    }
}
