//! Puts every mutant of a file into the file, each behind a switch, so that one build has them all.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprIf, ExprMatch, ExprUnary, ImplItemFn, ItemConst, ItemFn, ItemMod,
    ItemStatic, Pat, ReturnType, Signature, Stmt, TraitItemFn, UnOp,
    spanned::Spanned,
    visit::{self, Visit},
};

/// A change of the code that tests have to notice.
#[derive(Debug, Clone)]
pub(crate) struct Mutant {
    pub(crate) id: usize,
    /// The line in the file.
    pub(crate) line: usize,
    /// File, function and change, which do not depend on what is elsewhere in the file; with a number if others before it in the file
    /// have the same.
    pub(crate) name: String,
}

impl Mutant {
    pub(crate) fn file(&self) -> &str {
        self.name.split(": ").next().unwrap_or_default()
    }
}

/// A file with its mutants.
pub(crate) struct Instrumented {
    pub(crate) text: String,
    pub(crate) mutants: Vec<Mutant>,
}

/// Puts the mutants of a file behind switches; those in `unviable` do not compile, and are left out.
pub(crate) fn instrument(
    file: &str,
    source: &str,
    first: usize,
    unviable: &BTreeSet<usize>,
) -> anyhow::Result<Instrumented> {
    let parsed = syn::parse_file(source).with_context(|| format!("{file} cannot be parsed"))?;
    let mut finder = Finder {
        file,
        source,
        next: first,
        unviable,
        function: Vec::new(),
        edits: Vec::new(),
        mutants: Vec::new(),
        named: BTreeMap::new(),
    };
    finder.visit_file(&parsed);
    Ok(Instrumented { text: apply(source, finder.edits), mutants: finder.mutants })
}

/// The ids of the mutants in a line of an instrumented file.
pub(crate) fn mutants_in(line: &str) -> impl Iterator<Item = usize> {
    let calls = line.split("mutants::").skip(1);
    calls.filter_map(|call| call.strip_prefix("is(").or(call.strip_prefix("reached("))?.split(')').next()?.parse().ok())
}

/// A text to insert. At one offset, what ends comes before what begins, and the inner is inside the outer.
struct Edit {
    at: usize,
    begins: bool,
    order: usize,
    text: String,
}

fn apply(source: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by(|one, other| {
        let order = |edit: &Edit| if edit.begins { edit.order as isize } else { -(edit.order as isize) };
        (one.at, one.begins, order(one)).cmp(&(other.at, other.begins, order(other)))
    });
    let (mut text, mut done) = (String::with_capacity(source.len() * 3), 0);
    for edit in edits {
        text.push_str(&source[done..edit.at]);
        text.push_str(&edit.text);
        done = edit.at;
    }
    text + &source[done..]
}

/// When a mutant makes a difference: a test that never sees one cannot notice it.
#[derive(Clone, Copy)]
enum Differs {
    WhereReached,
    /// If the condition has the other value.
    IfOtherValue,
    /// [`Finder::compare`] notes it.
    BySomethingElse,
}

struct Finder<'f> {
    file: &'f str,
    source: &'f str,
    next: usize,
    unviable: &'f BTreeSet<usize>,
    function: Vec<String>,
    edits: Vec<Edit>,
    mutants: Vec<Mutant>,
    /// How many mutants have each name so far.
    named: BTreeMap<String, usize>,
}

impl Finder<'_> {
    fn text(&self, node: &impl Spanned) -> &str {
        &self.source[node.span().byte_range()]
    }

    /// A new mutant; `None` if it does not compile.
    fn mutant(&mut self, node: &impl Spanned, what: String) -> Option<usize> {
        let id = self.next;
        self.next += 1;
        let words: Vec<_> = what.split_whitespace().collect();
        let function = self.function.last().map_or("", String::as_str);
        let name = self.unique(format!("{}: {function}: {}", self.file, words.join(" ")));
        if self.unviable.contains(&id) {
            return None;
        }
        self.mutants.push(Mutant { id, line: node.span().start().line, name });
        Some(id)
    }

    /// A name, with a number if it is not the first of its kind. Those that do not compile count too, so that the others keep theirs.
    fn unique(&mut self, name: String) -> String {
        let number = self.named.entry(name.clone()).or_default();
        *number += 1;
        if *number == 1 { name } else { format!("{name} #{number}") }
    }

    fn insert(&mut self, at: usize, begins: bool, text: String) {
        let order = self.edits.len();
        self.edits.push(Edit { at, begins, order, text });
    }

    /// Replaces an expression by another one while a mutant is active.
    fn replace(&mut self, node: &impl Spanned, other: &str, differs: Differs) -> Option<usize> {
        let id = self.mutant(node, format!("`{}` becomes `{other}`", self.text(node)))?;
        let range = node.span().byte_range();
        let (is, begin, end) = match differs {
            Differs::WhereReached => ("reached", String::new(), " })"),
            Differs::BySomethingElse => ("is", String::new(), " })"),
            Differs::IfOtherValue => ("is", format!("crate::mutants::condition({id}, {other}, "), ") })"),
        };
        self.insert(range.start, true, format!("(\nif crate::mutants::{is}({id}) {{ {other} }}\nelse {{ {begin}"));
        self.insert(range.end, false, end.to_owned());
        Some(id)
    }

    /// Compares so that the mutants of a comparison are noted where they make a difference.
    fn compare(&mut self, found: &ExprBinary, ids: [Option<usize>; 2]) {
        if ids == [None, None] {
            return;
        }
        let ids = ids.map(|id| id.unwrap_or(usize::MAX));
        let (left, right) = (found.left.span().byte_range(), found.right.span().byte_range());
        let how = self.text(&found.op).to_owned();
        self.insert(left.start, true, format!("crate::mutants::compared(\"{how}\", {ids:?}, &("));
        self.insert(left.end, false, "), /*".to_owned());
        self.insert(right.start, true, "*/ &(".to_owned());
        self.insert(right.end, false, "))".to_owned());
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() || signature.ident == "fmt" {
            return;
        }
        self.function.push(signature.ident.to_string());
        let body = self.text(block).trim_matches(['{', '}']).trim().to_owned();
        for value in values(&signature.output) {
            if body == value || body.is_empty() {
                continue;
            }
            if let Some(id) = self.mutant(signature, format!("returns `{value}`")) {
                let at = block.brace_token.span.open().byte_range().end;
                self.insert(at, true, format!("\nif crate::mutants::reached({id}) {{ return {value}; }}\n"));
            }
        }
        visit::visit_block(self, block);
        self.function.pop();
    }

    /// The operands of a condition with `let`: they cannot be in brackets together.
    fn chain(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) if has_let(condition) => {
                self.chain(left);
                self.chain(right);
            }
            Expr::Let(found) => visit::visit_expr(self, &found.expr),
            other => self.condition(other),
        }
    }

    fn condition(&mut self, condition: &Expr) {
        for always in ["true", "false"] {
            self.replace(condition, always, Differs::IfOtherValue);
        }
        // The opposite of the whole condition is noticed by whoever notices one of the above.
        match condition {
            Expr::Binary(ExprBinary { op: BinOp::Eq(_) | BinOp::Ne(_), .. }) => visit::visit_expr(self, condition),
            Expr::Unary(ExprUnary { op: UnOp::Not(_), expr, .. }) => self.visit_expr(expr),
            other => self.visit_expr(other),
        }
    }
}

impl<'s> Visit<'s> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'s ItemMod) {
        let is_test = module.attrs.iter().any(|attribute| self.text(attribute).contains("test"));
        if !is_test {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_const(&mut self, _: &'s ItemConst) {}

    fn visit_item_static(&mut self, _: &'s ItemStatic) {}

    fn visit_impl_item_const(&mut self, _: &'s syn::ImplItemConst) {}

    fn visit_item_fn(&mut self, item: &'s ItemFn) {
        let is_test = item.attrs.iter().any(|attribute| self.text(attribute).contains("test"));
        if !is_test {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'s ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'s TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'s Stmt) {
        if let Stmt::Expr(Expr::Try(_) | Expr::Await(_) | Expr::Call(_) | Expr::MethodCall(_), Some(_)) = statement {
            let what = format!("leaves out `{}`", self.text(statement));
            if let Some(id) = self.mutant(statement, what) {
                let range = statement.span().byte_range();
                self.insert(range.start, true, format!("\nif !crate::mutants::reached({id}) {{\n"));
                self.insert(range.end, false, " }".to_owned());
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, found: &'s ExprIf) {
        self.chain(&found.cond);
        self.visit_block(&found.then_branch);
        if let Some((_, otherwise)) = &found.else_branch {
            self.visit_expr(otherwise);
        }
    }

    fn visit_expr_while(&mut self, found: &'s syn::ExprWhile) {
        // A loop that never ends, or never begins, is no guard.
        if !has_let(&found.cond) {
            self.visit_expr(&found.cond);
        }
        self.visit_block(&found.body);
    }

    fn visit_expr_match(&mut self, found: &'s ExprMatch) {
        self.visit_expr(&found.expr);
        let has_rest = found.arms.iter().any(|arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none());
        for arm in &found.arms {
            self.arm(arm, has_rest);
        }
    }

    fn visit_expr_binary(&mut self, found: &'s ExprBinary) {
        if has_let(&found.left) || has_let(&found.right) {
            return;
        }
        let others: &[&str] = match found.op {
            BinOp::Eq(_) => &["!="],
            BinOp::Ne(_) => &["=="],
            BinOp::And(_) => &["||"],
            BinOp::Or(_) => &["&&"],
            BinOp::Lt(_) => &["<=", ">"],
            BinOp::Gt(_) => &[">=", "<"],
            BinOp::Le(_) => &["<", ">"],
            BinOp::Ge(_) => &[">", "<"],
            BinOp::Add(_) => &["-"],
            BinOp::Sub(_) => &["+"],
            BinOp::Mul(_) => &["+"],
            BinOp::BitAnd(_) => &["|"],
            BinOp::BitOr(_) => &["&"],
            _ => &[],
        };
        let is_ordered = matches!(found.op, BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_));
        let is_logical = matches!(found.op, BinOp::And(_) | BinOp::Or(_));
        let differs = if is_ordered || is_logical { Differs::BySomethingElse } else { Differs::WhereReached };
        let mut ids = Vec::new();
        for other in others {
            let other = format!("{} {other} {}", self.text(&found.left), self.text(&found.right));
            ids.push(self.replace(found, &other, differs));
        }
        if let (true, [equal, reverse]) = (is_ordered, &*ids) {
            self.compare(found, [*equal, *reverse]);
        }
        if let (true, [Some(id)]) = (is_logical, &*ids) {
            // The same for `&&` if both are true, and for `||` if both are false.
            let same = matches!(found.op, BinOp::And(_));
            for operand in [&found.left, &found.right] {
                let range = operand.span().byte_range();
                self.insert(range.start, true, format!("crate::mutants::condition({id}, {same}, "));
                self.insert(range.end, false, ")".to_owned());
            }
        }
        visit::visit_expr_binary(self, found);
    }

    fn visit_expr_unary(&mut self, found: &'s ExprUnary) {
        if matches!(found.op, UnOp::Not(_)) {
            let other = self.text(&found.expr).to_owned();
            self.replace(found, &other, Differs::WhereReached);
        }
        visit::visit_expr_unary(self, found);
    }
}

impl Finder<'_> {
    fn arm(&mut self, arm: &Arm, has_rest: bool) {
        match &arm.guard {
            Some((_, guard)) if !has_let(guard) => self.condition(guard),
            None if has_rest && !matches!(arm.pat, Pat::Wild(_)) => {
                let what = format!("leaves out the arm `{}`", self.text(&arm.pat));
                if let Some(id) = self.mutant(&arm.pat, what) {
                    let end = arm.pat.span().byte_range().end;
                    self.insert(end, false, format!("\nif !crate::mutants::reached({id})\n"));
                }
            }
            _ => {}
        }
        self.visit_expr(&arm.body);
    }
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

/// Values that a function could return without doing anything.
fn values(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, output) => values_of(output),
    }
}

fn values_of(output: &syn::Type) -> Vec<String> {
    let default = || vec!["Default::default()".to_owned()];
    match output {
        syn::Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".to_owned()],
        syn::Type::Reference(reference) => match &*reference.elem {
            syn::Type::Path(path) if path.path.is_ident("str") => vec!["\"\"".to_owned(), "\"mutant\"".to_owned()],
            syn::Type::Slice(_) => vec!["&[]".to_owned()],
            _ => Vec::new(),
        },
        syn::Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return default() };
            let inner = || match &last.arguments {
                syn::PathArguments::AngleBracketed(arguments) => {
                    arguments.args.iter().find_map(|argument| match argument {
                        syn::GenericArgument::Type(inner) => Some(values_of(inner)),
                        _ => None,
                    })
                }
                _ => None,
            };
            match last.ident.to_string().as_str() {
                "bool" => vec!["true".to_owned(), "false".to_owned()],
                "String" => vec!["String::new()".to_owned(), "\"mutant\".to_owned()".to_owned()],
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => {
                    vec!["0".to_owned(), "1".to_owned()]
                }
                "Option" => {
                    let some = inner().unwrap_or_else(default).into_iter().map(|value| format!("Some({value})"));
                    std::iter::once("None".to_owned()).chain(some).collect()
                }
                "Result" => inner().unwrap_or_else(default).into_iter().map(|value| format!("Ok({value})")).collect(),
                "BoxFuture" => Vec::new(),
                _ => default(),
            }
        }
        syn::Type::ImplTrait(_) | syn::Type::Never(_) => Vec::new(),
        _ => default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &str) -> Vec<String> {
        let found = instrument("a.rs", source, 0, &BTreeSet::new()).expect("it can be parsed");
        syn::parse_file(&found.text).expect("what is instrumented can be parsed");
        found.mutants.into_iter().map(|mutant| mutant.name).collect()
    }

    #[test]
    fn guards_are_left_out_and_turned_around() {
        let source = "fn read(&self) -> Result<u8, E> { self.authorize()?; if !a || b == c { return Err(E); } Ok(2) }";
        assert_eq!(
            names(source),
            [
                "a.rs: read: returns `Ok(0)`",
                "a.rs: read: returns `Ok(1)`",
                "a.rs: read: leaves out `self.authorize()?;`",
                "a.rs: read: `!a || b == c` becomes `true`",
                "a.rs: read: `!a || b == c` becomes `false`",
                "a.rs: read: `!a || b == c` becomes `!a && b == c`",
                "a.rs: read: `!a` becomes `a`",
                "a.rs: read: `b == c` becomes `b != c`",
            ]
        );
    }

    #[test]
    fn a_condition_with_let_is_mutated_part_by_part() {
        let names = names("fn read() { if let Some(a) = b && a.is_own() { f(); } }");
        assert_eq!(
            names[1..],
            [
                "a.rs: read: `a.is_own()` becomes `true`",
                "a.rs: read: `a.is_own()` becomes `false`",
                "a.rs: read: leaves out `f();`",
            ]
        );
    }

    #[test]
    fn arms_are_left_out_where_another_one_takes_the_rest() {
        let names = names("fn read() -> bool { match a { A => true, B if c => false, _ => d } }");
        assert_eq!(
            names[2..],
            ["a.rs: read: leaves out the arm `A`", "a.rs: read: `c` becomes `true`", "a.rs: read: `c` becomes `false`",]
        );
    }

    #[test]
    fn equal_changes_have_a_number() {
        let source = "fn read() { f(); f(); } fn write() { f(); } mod other { fn read() { f(); } }";
        let name = |of: &str| format!("a.rs: {of}");
        let expected = ["read: leaves out `f();`", "read: leaves out `f();` #2", "write: leaves out `f();`"];
        let expected = expected.into_iter().chain(["read: leaves out `f();` #3"]).map(name);
        let found = names(source).into_iter().filter(|name| name.contains("leaves out"));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        // Also if the first one does not compile.
        let all = instrument("a.rs", source, 0, &BTreeSet::new()).expect("it can be parsed").mutants;
        for left_out in &all {
            let found = instrument("a.rs", source, 0, &BTreeSet::from([left_out.id])).expect("it can be parsed");
            for mutant in found.mutants {
                assert_eq!(mutant.name, all[mutant.id].name);
            }
        }
    }

    #[test]
    fn a_mutant_that_does_not_compile_is_left_out_and_the_others_keep_their_ids() {
        let source = "fn read() -> bool { a == b }";
        let found = instrument("a.rs", source, 7, &BTreeSet::from([8])).expect("it can be parsed");
        assert_eq!(found.mutants.iter().map(|mutant| mutant.id).collect::<Vec<_>>(), [7, 9]);
        let in_lines: Vec<usize> = found.text.lines().flat_map(mutants_in).collect();
        assert_eq!(in_lines, [7, 9]);
    }
}
