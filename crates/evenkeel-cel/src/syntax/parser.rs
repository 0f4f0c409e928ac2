//! A recursive descent parser of cel-go's grammar. Macros are expanded while calls are read.

use std::sync::Arc;

use super::lexer::{Token, TokenKind, tokens};
use super::literal::unquote;
use super::macros;
use crate::ast::{Call, Expr, ExprId, ExprKind, Literal, MapEntry, StructField};
use crate::source::{Issue, Location, Source};

/// The limit of nested rules of the grammar, as in cel-go.
const MAX_DEPTH: u32 = 250;

/// The limit of the height of the tree, which bounds the recursion of the checker and the interpreter.
const MAX_HEIGHT: u32 = 250;

/// The limit of a source, in code points.
const MAX_LENGTH: u32 = 100_000;

/// The limit of nodes that macros may expand a source to.
const MAX_NODES: u32 = 400_000;

/// The tokens that an expression may start with, as error messages list them.
const EXPRESSION_START: &str =
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A syntax tree with the places of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// The offsets of the nodes in the source, by id.
    pub(crate) offsets: Vec<u32>,
}

/// Whether macros are expanded or read as the calls that they look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Macros {
    Expanded,
    Calls,
}

/// Parses a source.
pub(crate) fn parse(source: &Source, macros: Macros) -> Result<Parsed, Vec<Issue>> {
    if source.length() > MAX_LENGTH {
        let message =
            format!("expression code point size exceeds limit: size: {}, limit {MAX_LENGTH}", source.length());
        return Err(vec![Issue { location: Location { line: 0, column: 0 }, message }]);
    }
    let mut issues = Vec::new();
    let tokens = tokens(source, &mut issues);
    let mut parser = Parser { source, tokens, macros, at: 0, depth: 0, offsets: vec![0], issues };
    let root = parser.start();
    if parser.issues.is_empty()
        && let Some(root) = root
    {
        return Ok(Parsed { root, offsets: parser.offsets });
    }
    Err(parser.issues)
}

pub(super) struct Parser<'s> {
    source: &'s Source,
    tokens: Vec<Token<'s>>,
    macros: Macros,
    at: usize,
    depth: u32,
    offsets: Vec<u32>,
    issues: Vec<Issue>,
}

/// `None`: an error was reported that parsing cannot continue after.
type Step<T> = Option<T>;

impl<'s> Parser<'s> {
    fn start(&mut self) -> Step<Expr> {
        let root = self.expression()?;
        if self.peek().kind != TokenKind::End {
            let token = self.peek();
            let fault = if self.peek_at(1).kind == TokenKind::End { "extraneous" } else { "mismatched" };
            self.syntax_error(token.offset, format!("{fault} input {} expecting <EOF>", token.shown()));
            return None;
        }
        Some(root)
    }

    fn peek(&self) -> Token<'s> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Token<'s> {
        let end = Token { kind: TokenKind::End, text: "", offset: self.source.length() };
        self.tokens.get(self.at + ahead).copied().unwrap_or(end)
    }

    fn take(&mut self) -> Token<'s> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn take_if(&mut self, symbol: &str) -> Option<Token<'s>> {
        self.peek().is(symbol).then(|| self.take())
    }

    fn expect(&mut self, symbol: &str) -> Step<Token<'s>> {
        if let Some(token) = self.take_if(symbol) {
            return Some(token);
        }
        let token = self.peek();
        if self.peek_at(1).is(symbol) {
            self.syntax_error(token.offset, format!("extraneous input {} expecting '{symbol}'", token.shown()));
        } else if token.kind == TokenKind::End && matches!(symbol, ")" | "]" | "}") {
            self.syntax_error(token.offset, format!("missing '{symbol}' at {}", token.shown()));
        } else {
            self.syntax_error(token.offset, format!("mismatched input {} expecting '{symbol}'", token.shown()));
        }
        None
    }

    fn syntax_error(&mut self, offset: u32, text: impl AsRef<str>) {
        self.error(offset, format!("Syntax error: {}", text.as_ref()));
    }

    pub(super) fn error(&mut self, offset: u32, message: String) {
        self.issues.push(Issue { location: self.source.location(offset), message });
    }

    pub(super) fn offset(&self, id: ExprId) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or(0)
    }

    /// Returns a new id for a node at a place.
    pub(super) fn id(&mut self, offset: u32) -> ExprId {
        let id = ExprId::try_from(self.offsets.len()).unwrap_or(ExprId::MAX);
        self.offsets.push(offset);
        id
    }

    fn recursion_error(&mut self) {
        let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
        self.issues.push(Issue { location: Location { line: 1, column: 0 }, message });
    }

    /// Returns a node, unless the tree is too high or has too many nodes.
    fn node(&mut self, id: ExprId, kind: ExprKind) -> Step<Expr> {
        let expr = Expr::new(id, kind);
        if expr.height > MAX_HEIGHT || id > MAX_NODES {
            self.recursion_error();
            return None;
        }
        Some(expr)
    }

    fn expression(&mut self) -> Step<Expr> {
        if self.depth >= MAX_DEPTH {
            self.recursion_error();
            return None;
        }
        self.depth += 1;
        let found = self.conditional();
        self.depth -= 1;
        found
    }

    fn conditional(&mut self) -> Step<Expr> {
        let condition = self.operation()?;
        let Some(question) = self.take_if("?") else { return Some(condition) };
        let id = self.id(question.offset);
        let chosen = self.operation()?;
        self.expect(":")?;
        let otherwise = self.expression()?;
        self.call(id, "_?_:_", None, vec![condition, chosen, otherwise])
    }

    /// Reads operands and binary operators. Operators wait on a stack instead of in calls of this function, so that
    /// nested expressions need little of the thread's stack.
    fn operation(&mut self) -> Step<Expr> {
        let mut operands = vec![self.operand()?];
        let mut waiting: Vec<(u8, &'static str, ExprId)> = Vec::new();
        while let Some((precedence, function)) = binary_operator(self.peek().kind) {
            let offset = self.take().offset;
            self.reduce(&mut operands, &mut waiting, precedence)?;
            let id = self.id(offset);
            waiting.push((precedence, function, id));
            operands.push(self.operand()?);
        }
        self.reduce(&mut operands, &mut waiting, 0)?;
        operands.pop()
    }

    /// Makes calls of the operators that bind stronger than the next one, or equally and from the left. Runs of `&&` and
    /// of `||` wait until they are whole, and become a balanced tree.
    fn reduce(
        &mut self,
        operands: &mut Vec<Expr>,
        waiting: &mut Vec<(u8, &'static str, ExprId)>,
        next: u8,
    ) -> Step<()> {
        while let Some((precedence, function, id)) = waiting.last().copied() {
            if precedence < next || (precedence == next && precedence <= CONJUNCTION) {
                break;
            }
            if precedence > CONJUNCTION {
                waiting.pop();
                let right = operands.pop()?;
                let left = operands.pop()?;
                operands.push(self.call(id, function, None, vec![left, right])?);
                continue;
            }
            let run = waiting.iter().rev().take_while(|(other, ..)| *other == precedence).count();
            let ids: Vec<ExprId> = waiting.split_off(waiting.len() - run).into_iter().map(|(.., id)| id).collect();
            let first = operands.len().checked_sub(run + 1)?;
            let mut terms: Vec<Option<Expr>> = operands.split_off(first).into_iter().map(Some).collect();
            operands.push(self.balance(function, &mut terms, &ids, 0, run - 1)?);
        }
        Some(())
    }

    fn balance(
        &mut self,
        function: &str,
        terms: &mut [Option<Expr>],
        operators: &[ExprId],
        low: usize,
        high: usize,
    ) -> Step<Expr> {
        let middle = (low + high).div_ceil(2);
        let id = *operators.get(middle)?;
        let left = if middle == low {
            terms.get_mut(middle)?.take()?
        } else {
            self.balance(function, terms, operators, low, middle - 1)?
        };
        let right = if middle == high {
            terms.get_mut(middle + 1)?.take()?
        } else {
            self.balance(function, terms, operators, middle + 1, high)?
        };
        self.call(id, function, None, vec![left, right])
    }

    /// Reads signs, a primary expression, and selections from it.
    fn operand(&mut self) -> Step<Expr> {
        let first = self.peek();
        let sign = match first.kind {
            TokenKind::Symbol("!") => Some("!_"),
            // A sign directly before a number belongs to the literal.
            TokenKind::Symbol("-") if !matches!(self.peek_at(1).kind, TokenKind::Int | TokenKind::Float) => Some("-_"),
            _ => None,
        };
        let mut times = 0;
        while sign.is_some() && self.peek().kind == first.kind {
            self.take();
            times += 1;
        }
        let id = (times % 2 == 1).then(|| self.id(first.offset));
        let mut operand = self.primary()?;
        loop {
            if let Some(dot) = self.take_if(".") {
                operand = self.selection(operand, dot)?;
            } else if let Some(open) = self.take_if("[") {
                let id = self.id(open.offset);
                let optional = self.take_if("?").is_some();
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.call(id, if optional { "_[?_]" } else { "_[_]" }, None, vec![operand, index])?;
            } else {
                break;
            }
        }
        match (id, sign) {
            (Some(id), Some(function)) => self.call(id, function, None, vec![operand]),
            _ => Some(operand),
        }
    }

    fn selection(&mut self, operand: Expr, dot: Token<'s>) -> Step<Expr> {
        let optional = self.take_if("?").is_some();
        let name = self.peek();
        let field = match name.kind {
            TokenKind::Ident => name.text,
            TokenKind::EscapedIdent => name.text.trim_matches('`'),
            TokenKind::Symbol(word @ ("true" | "false" | "null" | "in")) => {
                self.syntax_error(name.offset, format!("mismatched input '{word}' expecting IDENTIFIER"));
                return None;
            }
            _ => {
                let read = if name.kind == TokenKind::End { "." } else { &format!(".{}", name.text) };
                self.syntax_error(name.offset, format!("no viable alternative at input '{read}'"));
                return None;
            }
        };
        self.take();
        if !optional && name.kind == TokenKind::Ident && self.peek().is("(") {
            let open = self.take();
            let id = self.id(open.offset);
            let args = self.arguments(")")?;
            return self.call(id, name.text, Some(operand), args);
        }
        if optional {
            let literal = self.id(name.offset);
            let field = self.node(literal, ExprKind::Literal(Literal::String(Arc::from(field))))?;
            let id = self.id(dot.offset);
            return self.node(id, ExprKind::Call(Box::new(Call::new(None, "_?._", vec![operand, field]))));
        }
        let id = self.id(dot.offset);
        self.node(id, ExprKind::Select { operand: Box::new(operand), field: field.to_owned(), test_only: false })
    }

    /// Reads expressions up to a closing bracket.
    fn arguments(&mut self, close: &str) -> Step<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take_if(close).is_some() {
            return Some(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take_if(",").is_none() {
                self.expect(close)?;
                return Some(args);
            }
        }
    }

    fn primary(&mut self) -> Step<Expr> {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("(") => {
                self.take();
                let inner = self.expression()?;
                self.expect(")")?;
                Some(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol(".") if self.peek_at(1).kind == TokenKind::Ident => self.named(),
            TokenKind::Ident => self.named(),
            TokenKind::Symbol("-" | "true" | "false" | "null")
            | TokenKind::Int
            | TokenKind::Uint
            | TokenKind::Float
            | TokenKind::String
            | TokenKind::Bytes => self.literal(),
            _ => {
                let starts = matches!(
                    self.peek_at(1).kind,
                    TokenKind::Ident
                        | TokenKind::Int
                        | TokenKind::Uint
                        | TokenKind::Float
                        | TokenKind::String
                        | TokenKind::Bytes
                        | TokenKind::Symbol("[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
                );
                let fault = if starts && token.kind != TokenKind::End { "extraneous" } else { "mismatched" };
                self.syntax_error(
                    token.offset,
                    format!("{fault} input {} expecting {EXPRESSION_START}", token.shown()),
                );
                None
            }
        }
    }

    /// Reads an identifier, a call of a function, or the construction of an object.
    fn named(&mut self) -> Step<Expr> {
        let leading = self.take_if(".").is_some();
        let token = self.take();
        let name = if leading { format!(".{}", token.text) } else { token.text.to_owned() };
        if let Some(constructed) = self.construction(&name)? {
            return Some(constructed);
        }
        if RESERVED.contains(&token.text) {
            self.error(token.offset, format!("reserved identifier: {}", token.text));
            return None;
        }
        if let Some(open) = self.take_if("(") {
            let id = self.id(open.offset);
            let args = self.arguments(")")?;
            return self.call(id, &name, None, args);
        }
        let id = self.id(token.offset);
        self.node(id, ExprKind::Ident(name))
    }

    /// Reads `.b.c{field: value}` after `a`, if that is what follows.
    fn construction(&mut self, first: &str) -> Step<Option<Expr>> {
        let mut ahead = 0;
        let mut name = first.to_owned();
        while self.peek_at(ahead).is(".") && self.peek_at(ahead + 1).kind == TokenKind::Ident {
            name.push('.');
            name.push_str(self.peek_at(ahead + 1).text);
            ahead += 2;
        }
        if !self.peek_at(ahead).is("{") {
            return Some(None);
        }
        self.at += ahead;
        let open = self.take();
        let id = self.id(open.offset);
        let mut fields = Vec::new();
        while self.take_if("}").is_none() {
            let optional = self.take_if("?").is_some();
            let field = self.take();
            if !matches!(field.kind, TokenKind::Ident | TokenKind::EscapedIdent) {
                let expected = "{'?', '}', ',', IDENTIFIER, ESC_IDENTIFIER}";
                self.syntax_error(field.offset, format!("mismatched input {} expecting {expected}", field.shown()));
                return None;
            }
            let colon = self.expect(":")?;
            let id = self.id(colon.offset);
            let value = self.expression()?;
            fields.push(StructField { id, name: field.text.trim_matches('`').to_owned(), value, optional });
            if self.take_if(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        self.node(id, ExprKind::Struct { type_name: name, fields }).map(Some)
    }

    fn list(&mut self) -> Step<Expr> {
        let open = self.take();
        let id = self.id(open.offset);
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        while self.take_if("]").is_none() {
            if self.take_if("?").is_some() {
                optional.push(elements.len());
            }
            elements.push(self.expression()?);
            if self.take_if(",").is_none() {
                self.expect("]")?;
                break;
            }
        }
        self.node(id, ExprKind::List { elements, optional })
    }

    fn map(&mut self) -> Step<Expr> {
        let open = self.take();
        let id = self.id(open.offset);
        let mut entries = Vec::new();
        while self.take_if("}").is_none() {
            let optional = self.take_if("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(MapEntry { key, value, optional });
            if self.take_if(",").is_none() {
                self.expect("}")?;
                break;
            }
        }
        self.node(id, ExprKind::Map(entries))
    }

    fn literal(&mut self) -> Step<Expr> {
        let start = self.peek().offset;
        let negative = self.take_if("-").is_some();
        let token = self.take();
        let sign = if negative { "-" } else { "" };
        let value = match token.kind {
            TokenKind::Symbol("true") => Ok(Literal::Bool(true)),
            TokenKind::Symbol("false") => Ok(Literal::Bool(false)),
            TokenKind::Symbol("null") => Ok(Literal::Null),
            TokenKind::Int => match token.text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                None => format!("{sign}{}", token.text).parse(),
            }
            .map(Literal::Int)
            .map_err(|_| "invalid int literal"),
            TokenKind::Uint => {
                let digits = token.text.trim_end_matches(['u', 'U']);
                match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => digits.parse(),
                }
                .map(Literal::Uint)
                .map_err(|_| "invalid uint literal")
            }
            TokenKind::Float => format!("{sign}{}", token.text)
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .map(Literal::Double)
                .ok_or("invalid double literal"),
            TokenKind::String => unquote(token.text, false).and_then(|bytes| {
                let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string")?;
                Ok(Literal::String(text.into()))
            }),
            TokenKind::Bytes => {
                unquote(token.text.get(1..).unwrap_or(""), true).map(|bytes| Literal::Bytes(bytes.into()))
            }
            _ => {
                self.syntax_error(
                    token.offset,
                    format!("mismatched input {} expecting {EXPRESSION_START}", token.shown()),
                );
                return None;
            }
        };
        match value {
            Ok(value) => {
                let id = self.id(start);
                self.node(id, ExprKind::Literal(value))
            }
            Err(message) => {
                self.error(start, message.to_owned());
                None
            }
        }
    }

    /// Returns a call, or what the macro of this name expands to.
    pub(super) fn call(&mut self, id: ExprId, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Step<Expr> {
        let call = Call::new(target, function, args);
        if self.macros == Macros::Calls {
            return self.node(id, ExprKind::Call(Box::new(call)));
        }
        match macros::expand(self, id, call) {
            macros::Expansion::Expanded(kind) => {
                let offset = self.offset(id);
                let id = self.id(offset);
                self.node(id, kind)
            }
            macros::Expansion::NoMacro(call) => self.node(id, ExprKind::Call(Box::new(call))),
            macros::Expansion::Malformed { offset, message } => {
                self.error(offset, message.to_owned());
                None
            }
        }
    }
}

/// The precedence of `&&`. That of `||` is lower, that of all others is higher.
const CONJUNCTION: u8 = 2;

fn binary_operator(token: TokenKind) -> Option<(u8, &'static str)> {
    let TokenKind::Symbol(symbol) = token else { return None };
    Some(match symbol {
        "||" => (1, "_||_"),
        "&&" => (CONJUNCTION, "_&&_"),
        "<" => (3, "_<_"),
        "<=" => (3, "_<=_"),
        ">=" => (3, "_>=_"),
        ">" => (3, "_>_"),
        "==" => (3, "_==_"),
        "!=" => (3, "_!=_"),
        "in" => (3, "@in"),
        "+" => (4, "_+_"),
        "-" => (4, "_-_"),
        "*" => (5, "_*_"),
        "/" => (5, "_/_"),
        "%" => (5, "_%_"),
        _ => return None,
    })
}
