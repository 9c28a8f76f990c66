//! What a pod is told to do by its `flyball.dev/…` annotations, and what it does of its own accord.

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
/// With which code they end: `flyball.dev/exit-code: "3"`.
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
/// The longest time that an annotation may ask for; beyond it, nothing in a playground is waited for.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// A pod's part in the play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    /// How long each container takes to start.
    pub delay: Duration,
    /// After which time containers end, if the pod says so.
    pub run_for: Option<Duration>,
    /// The code with which they end, if the pod says so.
    pub exit_code: Option<i32>,
    /// Whether the image cannot be pulled.
    pub no_image: bool,
    /// Whether containers never become ready.
    pub never_ready: bool,
    /// How much CPU the pod uses, if it says so.
    pub cpu: Option<Quantity>,
    /// How much memory it uses, if it says so.
    pub memory: Option<Quantity>,
    /// What could not be read, for the user.
    pub complaints: Vec<String>,
}

impl Steering {
    pub fn read(annotations: &Labels) -> Self {
        let mut complaints = Vec::new();
        let mut duration = |key: &str| {
            let text = annotations.get(key)?;
            match parse_duration(text).ok().and_then(|d| Duration::try_from(d).ok()).filter(|d| *d <= LONGEST)
            {
                Some(duration) => Some(duration),
                None => {
                    complaints
                        .push(format!("{key}: {text:?} is no duration between 0s and a year; try \"5s\""));
                    None
                }
            }
        };
        let (delay, run_for) = (duration(DELAY), duration(RUN_FOR));
        let mut amount = |key: &str, example: &str| {
            let text = annotations.get(key)?;
            let amount = text.parse::<Quantity>().ok().filter(|amount| !amount.is_negative());
            if amount.is_none() {
                complaints.push(format!("{key}: {text:?} is no amount; try {example:?}"));
            }
            amount
        };
        let (cpu, memory) = (amount(CPU, "250m"), amount(MEMORY, "64Mi"));
        let mut exit_code = annotations.get(EXIT_CODE).and_then(|text| match text.parse::<u8>() {
            Ok(code) => Some(i32::from(code)),
            Err(_) => {
                complaints.push(format!("{EXIT_CODE}: {text:?} is no number from 0 to 255"));
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

    /// How a container of the pod ends: after which time, and with which code. `None` if it runs on.
    pub fn end_of(&self, pod: &Pod, container: &Container) -> Option<(Duration, i32)> {
        let to_completion = pod.spec.restart_policy != RestartPolicy::Always;
        let script = script::read(container);
        let told = self.run_for.is_some() || self.exit_code.is_some();
        match script {
            _ if told => {
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

    fn steering(pairs: &[(&str, &str)]) -> Steering {
        Steering::read(&pairs.iter().map(|(key, value)| (*key, *value)).collect())
    }

    #[test]
    fn annotations_decide_and_nonsense_is_named() {
        let quiet = steering(&[]);
        assert_eq!((quiet.delay, quiet.run_for, quiet.exit_code), (DEFAULT_DELAY, None, None));
        let told = steering(&[(DELAY, "1m30s"), (EXIT_CODE, "3"), (NEVER_READY, "true")]);
        assert_eq!((told.delay, told.exit_code, told.never_ready), (Duration::from_secs(90), Some(3), true));
        assert_eq!(steering(&[(FAIL, "true")]).exit_code, Some(1));
        assert!(steering(&[(FAIL, "image")]).no_image);
        #[rustfmt::skip]
        let nonsense = [
            (DELAY,       "soon",  "flyball.dev/delay: \"soon\" is no duration between 0s and a year; try \"5s\""),
            (DELAY,       "-5s",   "flyball.dev/delay: \"-5s\" is no duration between 0s and a year; try \"5s\""),
            (RUN_FOR,     "99999h", "flyball.dev/run-for: \"99999h\" is no duration between 0s and a year; try \"5s\""),
            (EXIT_CODE,   "256",   "flyball.dev/exit-code: \"256\" is no number from 0 to 255"),
            (FAIL,        "yes",   "flyball.dev/fail: \"yes\" is neither \"true\" nor \"image\""),
            (CPU,         "much",  "flyball.dev/cpu: \"much\" is no amount; try \"250m\""),
            (MEMORY,      "-1Mi",  "flyball.dev/memory: \"-1Mi\" is no amount; try \"64Mi\""),
            (NEVER_READY, "1",     "flyball.dev/never-ready: \"1\" is neither \"true\" nor \"false\""),
        ];
        for (key, value, want) in nonsense {
            assert_eq!(steering(&[(key, value)]).complaints, [want]);
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
            let got = steering(&annotations).end_of(&pod(policy), &container(&command));
            assert_eq!(got, want, "{annotations:?} {command:?}");
        }
    }
}
