//! How long a container's command would run, and with which exit code it would end: enough shell syntax for the commands of
//! tutorials (`sleep 30`, `sh -c 'echo hi; exit 3'`). Nothing is executed.

use std::time::Duration;

use super::shell::{self, Join, Statement};
use crate::objects::Container;

/// The longest `sleep`: a year.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    Ends { after: Duration, code: i32 },
    Forever,
    Unknown,
}

impl Script {
    /// Its exit code; 0 if unknown.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Ends { code, .. } => code,
            Self::Forever | Self::Unknown => 0,
        }
    }
}

/// Interprets the command of a container.
pub fn read(container: &Container) -> Script {
    run(container).0
}

/// The output of the command, line by line: what it would `echo`.
pub fn output(container: &Container) -> Vec<String> {
    run(container).1
}

/// Interprets a command with its arguments.
pub fn read_words(words: &[String]) -> Script {
    run_words(&words.iter().map(String::as_str).collect::<Vec<_>>()).0
}

fn run(container: &Container) -> (Script, Vec<String>) {
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(String::as_str).collect();
    run_words(&words)
}

/// The effect of a command and its output.
fn run_words(words: &[&str]) -> (Script, Vec<String>) {
    match text(words) {
        Some(text) => shell(&shell::statements(text)),
        None => (simple(words).unwrap_or(Script::Unknown), echo(words).into_iter().collect()),
    }
}

/// The line that a command prints, if it is `echo`.
fn echo(words: &[&str]) -> Option<String> {
    match words {
        ["echo", "-n" | "-e", rest @ ..] | ["echo", rest @ ..] => Some(rest.join(" ")),
        _ => None,
    }
}

/// The script argument of a shell (`sh -c`).
fn text<'a>(words: &[&'a str]) -> Option<&'a str> {
    match words {
        [shell, "-c" | "-ec" | "-exc" | "-xc", text, ..]
            if matches!(shell.rsplit('/').next(), Some("sh" | "bash" | "ash" | "dash")) =>
        {
            Some(text)
        }
        _ => None,
    }
}

/// A list of statements. An unknown statement takes no time and succeeds; an endless loop runs for ever.
fn shell(statements: &[Statement]) -> (Script, Vec<String>) {
    let (mut after, mut code, mut known) = (Duration::ZERO, 0, false);
    let mut output = Vec::new();
    for statement in statements {
        match statement.join {
            Join::And if code != 0 => continue,
            Join::Or if code == 0 => continue,
            _ => {}
        }
        let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
        let words = match &words[..] {
            ["exec", rest @ ..] => rest,
            words => words,
        };
        if matches!(words, ["while", "true" | ":"] | ["until", "false"]) {
            return (Script::Forever, output);
        }
        if statement.prints {
            output.extend(echo(words));
        }
        match (words, simple(words)) {
            (_, Some(Script::Forever)) => return (Script::Forever, output),
            (["exit"], _) => return (Script::Ends { after, code }, output),
            (["exit", ..], Some(Script::Ends { code, .. })) => return (Script::Ends { after, code }, output),
            (_, Some(Script::Ends { after: more, code: last })) => {
                (after, code, known) = (after.saturating_add(more), last, true);
            }
            (_, Some(Script::Unknown) | None) => code = 0,
        }
    }
    (if known { Script::Ends { after, code } } else { Script::Unknown }, output)
}

fn simple(words: &[&str]) -> Option<Script> {
    let program = words.first()?.rsplit('/').next()?;
    let ends = |after, code| Some(Script::Ends { after, code });
    match (program, &words[1..]) {
        ("sleep", ["infinity" | "inf"]) | ("pause", []) | ("tail", ["-f", "/dev/null"]) => {
            Some(Script::Forever)
        }
        ("sleep", [time]) => ends(seconds(time)?, 0),
        ("true" | "echo" | "date", _) => ends(Duration::ZERO, 0),
        ("false", _) => ends(Duration::ZERO, 1),
        ("exit", []) => ends(Duration::ZERO, 0),
        ("exit", [code]) => ends(Duration::ZERO, i32::from(code.parse::<u8>().ok()?)),
        _ => None,
    }
}

/// `30`, `0.5`, `30s`, `5m`, `2h`, `1d`.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.find(|c: char| c.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, "s"),
    };
    let factor = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(words: &[&str]) -> Container {
        Container { command: words.iter().map(|word| (*word).to_owned()).collect(), ..Container::default() }
    }

    #[test]
    fn commands_of_tutorials_are_understood() {
        let ends = |seconds: f64, code| Script::Ends { after: Duration::from_secs_f64(seconds), code };
        #[rustfmt::skip]
        let table: [(&[&str], Script); 24] = [
            (&[],                                            Script::Unknown),
            (&["nginx", "-g", "daemon off;"],                Script::Unknown),
            (&["sleep", "30"],                               ends(30.0, 0)),
            (&["/bin/sleep", "1.5m"],                        ends(90.0, 0)),
            (&["sleep", "infinity"],                         Script::Forever),
            (&["sleep", "-1"],                               Script::Unknown),
            (&["sleep", "NaN"],                              Script::Unknown),
            (&["false"],                                     ends(0.0, 1)),
            (&["sh", "-c", "echo hi && sleep 2; exit 3"],    ends(2.0, 3)),
            (&["/bin/sh", "-c", "date; echo Hello"],         ends(0.0, 0)),
            (&["bash", "-c", "while true; do sleep 1; done"], Script::Forever),
            (&["sh", "-c", "perl -e 1"],                     Script::Unknown),
            (&["sh", "-c", "exit 999"],                      Script::Unknown),
            (&["perl", "-Mbignum=bpi", "-wle", "print"],     Script::Unknown),
            (&["sh", "-c", "false || true"],                 ends(0.0, 0)),
            (&["sh", "-c", "true || exit 4"],                ends(0.0, 0)),
            (&["sh", "-c", "false && sleep 9"],              ends(0.0, 1)),
            (&["sh", "-c", "false && echo a || exit 7"],     ends(0.0, 7)),
            (&["sh", "-c", "false; exit"],                   ends(0.0, 1)),
            (&["sh", "-c", r#"echo "a; exit 5""#],           ends(0.0, 0)),
            (&["sh", "-c", "echo 'a && false' # exit 5"],    ends(0.0, 0)),
            (&["sh", "-c", "false | true"],                  ends(0.0, 0)),
            (&["sh", "-c", "echo hi >/dev/null 2>&1; sleep 3"], ends(3.0, 0)),
            (&["sh", "-c", "exec sleep infinity"],           Script::Forever),
        ];
        for (words, want) in table {
            assert_eq!(read(&container(words)), want, "{words:?}");
        }
    }

    #[test]
    fn what_is_echoed_is_the_output() {
        assert_eq!(output(&container(&["sh", "-c", "date; echo 'Hello world' && sleep 5"])), ["Hello world"]);
        assert_eq!(output(&container(&["echo", "a", "b"])), ["a b"]);
        assert!(output(&container(&["nginx"])).is_empty());
        assert_eq!(output(&container(&["sh", "-c", r#"echo "a; exit 5" b\ c"#])), ["a; exit 5 b c"]);
        assert_eq!(output(&container(&["sh", "-c", "false && echo no; true || echo no; echo yes"])), ["yes"]);
        assert_eq!(output(&container(&["sh", "-c", "echo a >file; echo b | cat; echo c 2>&1"])), ["c"]);
        assert_eq!(output(&container(&["sh", "-c", "exit 1; echo no"])), Vec::<String>::new());
    }
}
