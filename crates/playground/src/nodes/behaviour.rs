//! How a simulated pod behaves, by its `flyball.dev/…` annotations or by default.

use std::time::Duration;

use flyball_api::pod::RestartPolicy;
use flyball_api::time::parse_duration;
use flyball_api::{Labels, Quantity};

use super::script::{self, Script};
use crate::objects::{Container, Pod};

/// How long containers take to start: `flyball.dev/delay: 5s`.
pub const DELAY: &str = "flyball.dev/delay";
/// How long containers run before they end: `flyball.dev/run-for: 1m`.
pub const RUN_FOR: &str = "flyball.dev/run-for";
/// The exit code of containers: `flyball.dev/exit-code: "3"`.
pub const EXIT_CODE: &str = "flyball.dev/exit-code";
/// `flyball.dev/fail: "true"`: containers end with code 1. `image`: the image cannot be pulled.
pub const FAIL: &str = "flyball.dev/fail";
/// How much CPU the pod uses: `flyball.dev/cpu: 250m`.
pub const CPU: &str = "flyball.dev/cpu";
/// How much memory it uses: `flyball.dev/memory: 64Mi`.
pub const MEMORY: &str = "flyball.dev/memory";
/// `flyball.dev/never-ready: "true"`: containers run, but are never ready.
pub const NEVER_READY: &str = "flyball.dev/never-ready";

const DEFAULT_DELAY: Duration = Duration::from_millis(500);
const DEFAULT_RUN: Duration = Duration::from_secs(2);
/// The longest duration in an annotation.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The simulated behaviour of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// How long each container takes to start.
    pub delay: Duration,
    /// How long containers run, if the annotations say so.
    pub run_for: Option<Duration>,
    /// The exit code of containers, if the annotations say so.
    pub exit_code: Option<i32>,
    /// Whether the image cannot be pulled.
    pub no_image: bool,
    /// Whether containers never become ready.
    pub never_ready: bool,
    /// CPU usage, if the annotations say so.
    pub cpu: Option<Quantity>,
    /// Memory usage, if the annotations say so.
    pub memory: Option<Quantity>,
    /// Invalid annotations, as messages for the user.
    pub complaints: Vec<String>,
}

impl Behaviour {
    pub fn read(annotations: &Labels) -> Self {
        let mut complaints = Vec::new();
        let mut duration = |key: &str| {
            let text = annotations.get(key)?;
            match parse_duration(text).ok().and_then(|d| Duration::try_from(d).ok()).filter(|d| *d <= LONGEST)
            {
                Some(duration) => Some(duration),
                None => {
                    complaints
                        .push(format!("{key}: {text:?} is not a duration between 0s and a year; try \"5s\""));
                    None
                }
            }
        };
        let (delay, run_for) = (duration(DELAY), duration(RUN_FOR));
        let mut amount = |key: &str, example: &str| {
            let text = annotations.get(key)?;
            let amount = text.parse::<Quantity>().ok().filter(|amount| !amount.is_negative());
            if amount.is_none() {
                complaints.push(format!("{key}: {text:?} is not a quantity; try {example:?}"));
            }
            amount
        };
        let (cpu, memory) = (amount(CPU, "250m"), amount(MEMORY, "64Mi"));
        let mut exit_code = annotations.get(EXIT_CODE).and_then(|text| match text.parse::<u8>() {
            Ok(code) => Some(i32::from(code)),
            Err(_) => {
                complaints.push(format!("{EXIT_CODE}: {text:?} is not a number from 0 to 255"));
                None
            }
        });
        let mut no_image = false;
        match annotations.get(FAIL) {
            None | Some("false") => {}
            Some("true") => exit_code = exit_code.or(Some(1)),
            Some("image") => no_image = true,
            Some(other) => complaints.push(format!("{FAIL}: {other:?} is neither \"true\" nor \"image\"")),
        }
        let never_ready = match annotations.get(NEVER_READY) {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                complaints.push(format!("{NEVER_READY}: {other:?} is neither \"true\" nor \"false\""));
                false
            }
        };
        let delay = delay.unwrap_or(DEFAULT_DELAY);
        Self { delay, run_for, exit_code, no_image, never_ready, cpu, memory, complaints }
    }

    /// After which time a container of the pod ends, and with which exit code. `None` if it does not end.
    pub fn end_of(&self, pod: &Pod, container: &Container) -> Option<(Duration, i32)> {
        let to_completion = pod.spec.restart_policy != RestartPolicy::Always;
        let script = script::read(container);
        let given = self.run_for.is_some() || self.exit_code.is_some();
        match script {
            _ if given => {
                Some((self.run_for.unwrap_or(DEFAULT_RUN), self.exit_code.unwrap_or(script.exit_code())))
            }
            Script::Forever => None,
            Script::Ends { after, code } => Some((after.max(Duration::from_secs(1)), code)),
            Script::Unknown => to_completion.then_some((DEFAULT_RUN, 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(pairs: &[(&str, &str)]) -> Behaviour {
        Behaviour::read(&pairs.iter().map(|(key, value)| (*key, *value)).collect())
    }

    #[test]
    fn annotations_decide_and_nonsense_is_named() {
        let quiet = behaviour(&[]);
        assert_eq!((quiet.delay, quiet.run_for, quiet.exit_code), (DEFAULT_DELAY, None, None));
        let read = behaviour(&[(DELAY, "1m30s"), (EXIT_CODE, "3"), (NEVER_READY, "true")]);
        assert_eq!((read.delay, read.exit_code, read.never_ready), (Duration::from_secs(90), Some(3), true));
        assert_eq!(behaviour(&[(FAIL, "true")]).exit_code, Some(1));
        assert!(behaviour(&[(FAIL, "image")]).no_image);
        #[rustfmt::skip]
        let nonsense = [
            (DELAY,       "soon",  "flyball.dev/delay: \"soon\" is not a duration between 0s and a year; try \"5s\""),
            (DELAY,       "-5s",   "flyball.dev/delay: \"-5s\" is not a duration between 0s and a year; try \"5s\""),
            (RUN_FOR,     "99999h", "flyball.dev/run-for: \"99999h\" is not a duration between 0s and a year; try \"5s\""),
            (EXIT_CODE,   "256",   "flyball.dev/exit-code: \"256\" is not a number from 0 to 255"),
            (FAIL,        "yes",   "flyball.dev/fail: \"yes\" is neither \"true\" nor \"image\""),
            (CPU,         "much",  "flyball.dev/cpu: \"much\" is not a quantity; try \"250m\""),
            (MEMORY,      "-1Mi",  "flyball.dev/memory: \"-1Mi\" is not a quantity; try \"64Mi\""),
            (NEVER_READY, "1",     "flyball.dev/never-ready: \"1\" is neither \"true\" nor \"false\""),
        ];
        for (key, value, want) in nonsense {
            assert_eq!(behaviour(&[(key, value)]).complaints, [want]);
        }
    }

    #[test]
    fn pods_that_run_to_completion_end_and_others_do_not() {
        let container = |command: &[&str]| Container {
            command: command.iter().map(|s| (*s).to_owned()).collect(),
            ..Container::default()
        };
        let pod = |policy: &RestartPolicy| {
            let mut pod = Pod::default();
            pod.spec.restart_policy = *policy;
            pod
        };
        let secs = Duration::from_secs;
        let (always, never) = (RestartPolicy::Always, RestartPolicy::Never);
        #[rustfmt::skip]
        let table = [
            // annotations                            policy    command             end
            (vec![],                                  &always,  vec![],             None),
            (vec![],                                  &never,   vec![],             Some((DEFAULT_RUN, 0))),
            (vec![],                                  &never,   vec!["sleep", "9"], Some((secs(9), 0))),
            (vec![],                                  &always,  vec!["sleep", "9"], Some((secs(9), 0))),
            (vec![],                                  &never,   vec!["false"],      Some((secs(1), 1))),
            (vec![],                                  &never,   vec!["sleep", "infinity"], None),
            (vec![(RUN_FOR, "7s")],                   &never,   vec!["false"],      Some((secs(7), 1))),
            (vec![(RUN_FOR, "7s"), (EXIT_CODE, "0")], &always,  vec!["false"],      Some((secs(7), 0))),
            (vec![(FAIL, "true")],                    &always,  vec![],             Some((DEFAULT_RUN, 1))),
        ];
        for (annotations, policy, command, want) in table {
            let got = behaviour(&annotations).end_of(&pod(policy), &container(&command));
            assert_eq!(got, want, "{annotations:?} {command:?}");
        }
    }
}
