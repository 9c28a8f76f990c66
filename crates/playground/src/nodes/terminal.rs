//! Simulated commands that have input: `cat`, and a shell whose commands are simulated like those of containers.

use flyball_apiserver::{Ran, Streams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// What is read at once.
const CHUNK: usize = 4096;
/// The longest line that a shell reads.
const LONGEST: usize = 64 << 10;
const PROMPT: &str = "/ # ";

/// The characters that a terminal sends for keys.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACES: [u8; 2] = [8, 127];
/// A shell's exit code after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// A command that reads its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interactive {
    /// Writes what it reads.
    Cat,
    /// Runs each line that it reads.
    Shell,
}

impl Interactive {
    /// The command, if it is one of these.
    pub(crate) fn read(command: &[&str]) -> Option<Self> {
        let (program, arguments) = command.split_first()?;
        match program.rsplit('/').next()? {
            "cat" if arguments.iter().all(|argument| *argument == "-") => Some(Self::Cat),
            "sh" | "bash" | "ash" | "dash" => {
                arguments.iter().all(|argument| matches!(*argument, "-i" | "-l" | "-")).then_some(Self::Shell)
            }
            _ => None,
        }
    }

    /// Runs it until its input ends; `simulate` says what a line would print.
    pub(crate) async fn run(self, streams: Streams, simulate: impl Fn(&str) -> Ran) -> i32 {
        let Streams { stdin, stdout, stderr, tty } = streams;
        let mut lines = Lines::new(stdin, tty);
        let mut out = Out { stdout, stderr, tty };
        match self {
            Self::Cat => cat(&mut lines, &mut out).await,
            Self::Shell => shell(&mut lines, &mut out, simulate).await,
        }
    }
}

async fn cat(lines: &mut Lines, out: &mut Out) -> i32 {
    loop {
        match lines.next(out).await {
            Line::Text(line) => out.say(&line).await,
            Line::Interrupt => return INTERRUPTED,
            Line::End => return 0,
        }
    }
}

async fn shell(lines: &mut Lines, out: &mut Out, simulate: impl Fn(&str) -> Ran) -> i32 {
    let mut last = 0;
    loop {
        if out.tty {
            out.say(PROMPT).await;
        }
        let line = match lines.next(out).await {
            Line::Text(line) => line,
            Line::Interrupt => {
                last = INTERRUPTED;
                continue;
            }
            Line::End => return last,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["exit"] => return last,
            ["exit", code] => return code.parse::<u8>().map_or(2, i32::from),
            _ => {
                let ran = simulate(line.trim());
                out.say(&ran.stdout).await;
                out.complain(&ran.stderr).await;
                last = ran.code;
            }
        }
    }
}

/// The outputs of a command.
struct Out {
    stdout: DuplexStream,
    stderr: DuplexStream,
    tty: bool,
}

impl Out {
    // A client that has gone reads nothing; the command ends soon.
    async fn say(&mut self, text: &str) {
        let text = shown(text, self.tty);
        let _ = self.stdout.write_all(text.as_bytes()).await;
    }

    async fn complain(&mut self, text: &str) {
        let text = shown(text, self.tty);
        let _ = self.stderr.write_all(text.as_bytes()).await;
    }
}

/// A terminal begins a line where the last one ended, unless it is sent back to the left.
fn shown(text: &str, tty: bool) -> String {
    if tty { text.replace('\n', "\r\n") } else { text.to_owned() }
}

#[derive(Debug, PartialEq)]
enum Line {
    /// With its line break, if it has one.
    Text(String),
    Interrupt,
    End,
}

/// The input, line by line. From a terminal, it is shown as it is typed, and can be corrected.
struct Lines {
    from: DuplexStream,
    tty: bool,
    read: Vec<u8>,
    line: Vec<u8>,
}

impl Lines {
    fn new(from: DuplexStream, tty: bool) -> Self {
        Self { from, tty, read: Vec::new(), line: Vec::new() }
    }

    async fn next(&mut self, out: &mut Out) -> Line {
        loop {
            let Some(byte) = self.byte().await else {
                return if self.line.is_empty() { Line::End } else { self.taken() };
            };
            if self.tty
                && let Some(line) = self.typed(byte, out).await
            {
                return line;
            }
            if !self.tty {
                self.line.push(byte);
                if byte == b'\n' || self.line.len() >= LONGEST {
                    return self.taken();
                }
            }
        }
    }

    /// A key was pressed.
    async fn typed(&mut self, byte: u8, out: &mut Out) -> Option<Line> {
        match byte {
            b'\r' | b'\n' => {
                out.say("\n").await;
                self.line.push(b'\n');
                return Some(self.taken());
            }
            INTERRUPT => {
                out.say("^C\n").await;
                self.line.clear();
                return Some(Line::Interrupt);
            }
            END if self.line.is_empty() => return Some(Line::End),
            END => {}
            byte if BACKSPACES.contains(&byte) => {
                // The whole character, whose later bytes are marked as such.
                while self.line.pop_if(|byte| *byte & 0xc0 == 0x80).is_some() {}
                if self.line.pop().is_some() {
                    out.say("\u{8} \u{8}").await;
                }
            }
            byte if self.line.len() < LONGEST => {
                self.line.push(byte);
                let _ = out.stdout.write_all(&[byte]).await;
            }
            _ => {}
        }
        None
    }

    fn taken(&mut self) -> Line {
        Line::Text(String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned())
    }

    async fn byte(&mut self) -> Option<u8> {
        if self.read.is_empty() {
            let mut chunk = vec![0; CHUNK];
            let length = self.from.read(&mut chunk).await.ok().filter(|length| *length > 0)?;
            chunk.truncate(length);
            chunk.reverse();
            self.read = chunk;
        }
        self.read.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command, its input, whether it has a terminal; its output, its errors and its exit code.
    type Row<'a> = (&'a [&'a str], &'a str, bool, &'a str, &'a str, i32);

    /// The output, the errors and the exit code for an input.
    async fn run(command: &[&str], input: &str, tty: bool) -> (String, String, i32) {
        let [(mut typed, stdin), (stdout, mut said), (stderr, mut complained)] =
            std::array::from_fn(|_| tokio::io::duplex(4096));
        typed.write_all(input.as_bytes()).await.unwrap();
        drop(typed);
        let simulate = |line: &str| match line {
            "false" => Ran { code: 1, ..Ran::default() },
            "oh" => Ran { stderr: "oh!\n".to_owned(), ..Ran::default() },
            line => Ran { stdout: format!("<{line}>\n"), ..Ran::default() },
        };
        let streams = Streams { stdin, stdout, stderr, tty };
        let code = Interactive::read(command).unwrap().run(streams, simulate).await;
        let (mut text, mut errors) = (String::new(), String::new());
        said.read_to_string(&mut text).await.unwrap();
        complained.read_to_string(&mut errors).await.unwrap();
        (text, errors, code)
    }

    #[tokio::test]
    async fn input_is_read_until_it_ends() {
        #[rustfmt::skip]
        let table: [Row<'_>; 9] = [
            // command       input                  terminal  output                          errors    code
            (&["cat"],       "a\nb",                false,    "a\nb",                         "",       0),
            (&["cat", "-"],  "ä\r",                 true,     "ä\r\nä\r\n",                  "",       0),
            (&["cat"],       "ab\x7fc\r\x04x",      true,     "ab\x08 \x08c\r\nac\r\n",      "",       0),
            (&["cat"],       "a\x03b",              true,     "a^C\r\n",                      "",       130),
            (&["sh"],        "one\n\nfalse\n",      false,    "<one>\n",                      "",       1),
            (&["/bin/bash"], "oh\nexit 7\nno\n",    false,    "",                             "oh!\n",  7),
            (&["sh", "-i"],  "exit\n",              false,    "",                             "",       0),
            (&["ash"],       "a\rexit 3\r",         true,     "/ # a\r\n<a>\r\n/ # exit 3\r\n", "",    3),
            (&["sh"],        "ab\x03\x04",          true,     "/ # ab^C\r\n/ # ",             "",       130),
        ];
        for (command, input, tty, text, errors, code) in table {
            let got = run(command, input, tty).await;
            assert_eq!(got, (text.to_owned(), errors.to_owned(), code), "{command:?} {input:?}");
        }
    }

    #[test]
    fn other_commands_have_no_input() {
        for command in [&["cat", "/etc/hosts"][..], &["sh", "-c", "x"], &["vi"], &[]] {
            assert_eq!(Interactive::read(command), None, "{command:?}");
        }
    }
}
