//! What a container's command would do, as far as time and exit code are concerned: enough shell syntax for the commands of
//! tutorials (`sleep 30`, `sh -c 'echo hi; exit 3'`). Nothing is executed.

use std::time::Duration;

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
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(String::as_str).collect();
    match text(&words) {
        Some(text) => shell(text),
        None => simple(&words).unwrap_or(Script::Unknown),
    }
}

/// The output of the command, line by line: what it would `echo`.
pub fn output(container: &Container) -> Vec<String> {
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(String::as_str).collect();
    let echo = |words: &[&str]| match words {
        ["echo", "-n" | "-e", rest @ ..] | ["echo", rest @ ..] => Some(rest.join(" ")),
        _ => None,
    };
    match text(&words) {
        Some(text) => statements(text)
            .filter_map(|statement| {
                let words: Vec<&str> = statement.split_whitespace().collect();
                echo(&words).map(|line| line.replace(['"', '\''], ""))
            })
            .collect(),
        None => echo(&words).into_iter().collect(),
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

fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', '\n']).flat_map(|part| part.split("&&")).map(str::trim).filter(|part| !part.is_empty())
}

/// A list of statements. An unknown statement takes no time; an endless loop runs for ever.
fn shell(text: &str) -> Script {
    let (mut after, mut code, mut known) = (Duration::ZERO, 0, false);
    for statement in statements(text) {
        let statement = statement.strip_prefix("exec ").unwrap_or(statement);
        if matches!(statement, "while true" | "while :" | "until false") {
            return Script::Forever;
        }
        let words: Vec<&str> = statement.split_whitespace().collect();
        match (&words[..], simple(&words)) {
            (_, Some(Script::Forever)) => return Script::Forever,
            (["exit", ..], Some(Script::Ends { code, .. })) => return Script::Ends { after, code },
            (_, Some(Script::Ends { after: more, code: last })) => {
                (after, code, known) = (after.saturating_add(more), last, true);
            }
            (_, Some(Script::Unknown) | None) => code = 0,
        }
    }
    if known { Script::Ends { after, code } } else { Script::Unknown }
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
        let table: [(&[&str], Script); 14] = [
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
    }
}
