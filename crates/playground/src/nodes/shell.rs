//! Splits a shell script into simple commands: words with their quotes removed, and the operators between commands. Variables,
//! substitutions and compound commands are not interpreted.

/// When a command runs, given the exit code of what ran before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// After `;`, `&` or a line break, or as a later part of a pipeline: always.
    Always,
    /// After `&&`: if it succeeded.
    And,
    /// After `||`: if it failed.
    Or,
}

/// A simple command, with the operator before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) join: Join,
    pub(super) words: Vec<String>,
    /// Whether it prints to the output of the script, not to a file or a pipe.
    pub(super) prints: bool,
}

/// The commands of a script, in order.
pub(super) fn statements(text: &str) -> Vec<Statement> {
    let mut reader = Reader { statements: Vec::new(), current: empty(Join::Always), word: None };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => reader.word().extend(chars.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                reader.word();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    let escapes = c == '\\' && chars.peek().is_some_and(|next| "\"\\$`".contains(*next));
                    let c = if escapes { chars.next() } else { Some(c) };
                    reader.word().extend(c);
                }
            }
            // A backslash at the end of a line continues the line.
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(c) => reader.word().push(c),
            },
            '#' if reader.word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            ' ' | '\t' | '\r' => reader.end_word(),
            ';' | '\n' => reader.end(Join::Always),
            '&' if chars.next_if_eq(&'&').is_some() => reader.end(Join::And),
            '|' if chars.next_if_eq(&'|').is_some() => reader.end(Join::Or),
            '&' => reader.end(Join::Always),
            '|' => {
                reader.current.prints = false;
                reader.end(Join::Always);
            }
            '>' | '<' => {
                // A number directly before it is a file descriptor.
                let descriptor = reader.word.take_if(|word| word.chars().all(|c| c.is_ascii_digit()));
                reader.end_word();
                while chars.next_if(|c| ">& ".contains(*c)).is_some() {}
                while chars.next_if(|c| !c.is_whitespace() && !";|&".contains(*c)).is_some() {}
                if c == '>' && descriptor.is_none_or(|descriptor| descriptor == "1") {
                    reader.current.prints = false;
                }
            }
            c => reader.word().push(c),
        }
    }
    reader.end(Join::Always);
    reader.statements
}

fn empty(join: Join) -> Statement {
    Statement { join, words: Vec::new(), prints: true }
}

struct Reader {
    statements: Vec<Statement>,
    current: Statement,
    word: Option<String>,
}

impl Reader {
    /// The word that is being read. Quotes begin one even if it is empty.
    fn word(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.current.words.extend(self.word.take());
    }

    /// Ends the current command; `join` is for the next one. Line breaks after `&&` or `||` do not count.
    fn end(&mut self, join: Join) {
        self.end_word();
        if self.current.words.is_empty() {
            return;
        }
        self.statements.push(std::mem::replace(&mut self.current, empty(join)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_does() {
        #[rustfmt::skip]
        let table = [
            ("",                               ""),
            (" ;;\n",                          ""),
            ("a b; c",                         "[a b] ; [c]"),
            ("a && b || c\nd",                 "[a] && [b] || [c] ; [d]"),
            ("a &&\n b",                       "[a] && [b]"),
            ("a 'b; c' \"d && e\"",            "[a b; c d && e]"),
            (r#"a "b\"c" d\ e ''"#,            r#"[a b"c d e ]"#),
            ("a # b; c\nd",                    "[a] ; [d]"),
            ("a#b",                            "[a#b]"),
            ("a \\\n b",                       "[a b]"),
            ("a | b",                          "[a]> ; [b]"),
            ("a >f 2>&1; b 2>/dev/null",       "[a]> ; [b]"),
            ("a & b",                          "[a] ; [b]"),
            ("'a",                             "[a]"),
        ];
        for (text, want) in table {
            let shown: Vec<String> = statements(text)
                .iter()
                .enumerate()
                .map(|(n, statement)| {
                    let join = match statement.join {
                        _ if n == 0 => "",
                        Join::Always => " ; ",
                        Join::And => " && ",
                        Join::Or => " || ",
                    };
                    let piped = if statement.prints { "" } else { ">" };
                    format!("{join}[{}]{piped}", statement.words.join(" "))
                })
                .collect();
            assert_eq!(shown.concat(), want, "{text:?}");
        }
    }
}
