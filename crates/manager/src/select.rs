//! Which controllers run: `--controllers` and the feature gates, applied to the table.

use flyball_runtime::{
    gates::{Gate, Gates},
    nearest,
};

use crate::{component::Component, table::Controller};

/// Starts regardless of `--controllers`; only a missing key disables it.
// Upstream: cmd/kube-controller-manager/app/controller_descriptor.go: the controller with `requiresSpecialHandling`.
const ALWAYS: &str = "serviceaccount-token-controller";

/// A name in `--controllers` that no controller has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--controllers: there is no controller {name:?}{}", .nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
pub struct UnknownController {
    /// Without the minus.
    pub name: String,
    /// The known name that looks most like it.
    pub nearest: Option<&'static str>,
}

/// See [`Component::canonical`].
pub(crate) fn canonical(component: &Component, list: &[String]) -> Result<Vec<String>, UnknownController> {
    list.iter()
        .map(|entry| {
            if entry == "*" {
                return Ok(entry.clone());
            }
            let (sign, name) = match entry.strip_prefix('-') {
                Some(name) => ("-", name),
                None => ("", entry.as_str()),
            };
            let controller = component.controller(name).ok_or_else(|| {
                let names =
                    component.controllers.iter().flat_map(|c| c.aliases.iter().copied().chain([c.name]));
                UnknownController { name: name.to_owned(), nearest: nearest(name, names) }
            })?;
            Ok(format!("{sign}{}", controller.name))
        })
        .collect()
}

/// Whether a controller runs, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Run,
    /// The list leaves it out.
    NotListed,
    GateOff(Gate),
    /// It belongs to the cloud-controller-manager.
    Cloud,
}

/// The choice for a controller, given the canonical list.
pub fn choose(controller: &Controller, list: &[String], gates: &Gates) -> Choice {
    if controller.name != ALWAYS && !is_listed(controller.name, controller.on_by_default, list) {
        return Choice::NotListed;
    }
    if let Some(gate) = controller.gates.iter().find(|gate| !gates.enabled(**gate)) {
        return Choice::GateOff(*gate);
    }
    if controller.start.is_some() { Choice::Run } else { Choice::Cloud }
}

/// Whether a list such as `--controllers` turns a name on. The first entry with the name decides; `*` stands for those that are
/// enabled by default.
pub fn is_listed(name: &str, on_by_default: bool, list: &[String]) -> bool {
    for entry in list {
        if entry == name {
            return true;
        }
        if entry.strip_prefix('-') == Some(name) {
            return false;
        }
    }
    on_by_default && list.iter().any(|entry| entry == "*")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KUBE_CONTROLLER_MANAGER as KUBE;

    fn list(text: &str) -> Vec<String> {
        text.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn the_list_gates_and_table_decide() {
        #[rustfmt::skip]
        let table = [
            // list                                controller                           gates                     listed
            ("*",                                  "deployment-controller",             "",                       true),
            ("*",                                  "bootstrap-signer-controller",       "",                       false),
            ("*,bootstrapsigner",                  "bootstrap-signer-controller",       "",                       true),
            ("*,-deployment",                      "deployment-controller",             "",                       false),
            ("-deployment-controller,*",           "deployment-controller",             "",                       false),
            ("replicaset,serviceaccount",          "replicaset-controller",             "",                       true),
            ("replicaset,serviceaccount",          "deployment-controller",             "",                       false),
            ("replicaset,-replicaset",             "replicaset-controller",             "",                       true),
            ("-replicaset,replicaset",             "replicaset-controller",             "",                       false),
            ("",                                   "replicaset-controller",             "",                       false),
            ("-*",                                 "replicaset-controller",             "",                       false),
            ("",                                   "serviceaccount-token-controller",   "",                       true),
            ("*,-serviceaccount-token",            "serviceaccount-token-controller",   "",                       true),
            ("*",                                  "podgroup-protection-controller",    "",                       false),
            ("*",                                  "podgroup-protection-controller",    "GenericWorkload=true",   true),
            ("*",                                  "service-lb-controller",             "",                       false),
        ];
        for (given, name, gates, want) in table {
            let given = if given == "-*" { list(given) } else { KUBE.canonical(&list(given)).unwrap() };
            let gates = Gates::parse(&[gates]).unwrap();
            let choice = choose(KUBE.controller(name).unwrap(), &given, &gates);
            assert_eq!(choice == Choice::Run, want, "{given:?} {name}: {choice:?}");
        }
    }

    #[test]
    fn unknown_names_are_errors_that_help() {
        #[rustfmt::skip]
        let table = [
            ("*,-deploymnt", "--controllers: there is no controller \"deploymnt\"; did you mean deployment?"),
            ("replica-set-controller", "--controllers: there is no controller \"replica-set-controller\"; did you mean replicaset-controller?"),
            ("garbage", "--controllers: there is no controller \"garbage\""),
        ];
        for (given, want) in table {
            assert_eq!(KUBE.canonical(&list(given)).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn aliases_become_canonical_names() {
        let given = list("*,-csrsigning,bootstrapsigner,tokencleaner");
        assert_eq!(
            KUBE.canonical(&given).unwrap(),
            list(
                "*,-certificatesigningrequest-signing-controller,bootstrap-signer-controller,token-cleaner-controller"
            )
        );
    }
}
