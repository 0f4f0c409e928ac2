//! The tokens of the label selector grammar.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    End,
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    /// A key, a value, or `in` or `notin`, which are operators and legal keys and values.
    Word(&'a str),
}

impl<'a> Token<'a> {
    pub(super) fn text(self) -> &'a str {
        match self {
            Token::End => "",
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Word(word) => word,
        }
    }
}

/// Splits a selector into tokens, with one token of look-ahead.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { rest: text }
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// Returns the next token, and [`Token::End`] from the end on.
    pub(super) fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(is_space);
        let Some(first) = self.rest.chars().next() else {
            return Token::End;
        };
        let token = match first {
            ',' => Token::Comma,
            '(' => Token::Open,
            ')' => Token::Close,
            '>' => Token::Greater,
            '<' => Token::Less,
            '=' if self.rest.starts_with("==") => Token::DoubleEquals,
            '=' => Token::Equals,
            '!' if self.rest.starts_with("!=") => Token::NotEquals,
            '!' => Token::Not,
            _ => {
                let end = self.rest.find(|c| is_space(c) || is_symbol(c)).unwrap_or(self.rest.len());
                Token::Word(self.rest.get(..end).unwrap_or_default())
            }
        };
        self.rest = self.rest.get(token.text().len()..).unwrap_or_default();
        token
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}
