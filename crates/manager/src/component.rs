//! What distinguishes one controller manager from another: name, flags, controllers, settings. The rest of this crate is the
//! same for all of them.

use std::collections::BTreeMap;

use flyball_runtime::{
    config::Config,
    gates::{Gate, Gates},
};

use crate::{
    flags::{Flag, FlagError, Invocation, KUBE_FLAGS, Section, help, parse, print_all},
    options::Options,
    select::{self, UnknownController},
    table::{CONTROLLERS, Controller},
    validate,
};

#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// The name of the program, its user agent and its lease.
    pub name: &'static str,
    /// The first words of `--help`.
    pub introduction: &'static str,
    /// Its flags, section by section, in the order of `--help`.
    pub flags: &'static [&'static [Section]],
    pub controllers: &'static [Controller],
    pub defaults: fn() -> Options,
    /// Validates the options; one line for each problem.
    pub problems: fn(&Component, &Options, &Gates) -> Vec<String>,
    /// The body of `/configz`.
    pub configz: fn(&Config) -> String,
    /// Whether it has the pages `/flagz` and `/statusz`.
    pub has_zpages: bool,
    /// Whether its behaviour depends on a gate.
    pub reads: fn(Gate) -> bool,
    pub release: Release,
}

/// Whether a manager releases its lease when it is shut down, so that a standby takes over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    Always,
    /// If this gate is on.
    With(Gate),
    Never,
}

impl Release {
    pub(crate) fn is_wanted(self, gates: &Gates) -> bool {
        match self {
            Self::Always => true,
            Self::With(gate) => gates.enabled(gate),
            Self::Never => false,
        }
    }
}

/// The manager that this crate is named after.
pub static KUBE_CONTROLLER_MANAGER: Component = Component {
    name: "kube-controller-manager",
    introduction: "\
Flyball's kube-controller-manager: the control loops of Kubernetes v1.36, a drop-in for the binary of
the same name. It watches the cluster through the API server and moves it from what is to what was asked
for: it creates pods for ReplicaSets, collects garbage, signs certificates, and so on.
",
    flags: KUBE_FLAGS,
    controllers: CONTROLLERS,
    defaults: Options::default,
    problems: validate::problems,
    configz: Config::configz,
    has_zpages: true,
    reads: |gate| {
        !matches!(
            gate,
            Gate::CloudControllerManagerWatchBasedRoutesReconciliation | Gate::CloudControllerManagerWebhook
        )
    },
    release: Release::With(Gate::ControllerManagerReleaseLeaderElectionLockOnExit),
};

impl Component {
    /// Reads the arguments after the program's name.
    pub fn parse<S: AsRef<str>>(&'static self, arguments: &[S]) -> Result<Invocation, FlagError> {
        parse::parse(self, arguments)
    }

    /// What `--help` prints.
    pub fn help(&self) -> String {
        help::help(self)
    }

    /// Its flags, section by section.
    pub fn sections(&self) -> impl Iterator<Item = &'static Section> + use<> {
        self.flags.iter().copied().flatten()
    }

    pub fn all_flags(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.sections().flat_map(|section| section.flags)
    }

    /// The flag of that name, dashes or underscores.
    pub fn flag(&self, name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        self.all_flags().find(|flag| flag.name == name)
    }

    /// Every flag with its value, by name: the content of `/flagz`.
    pub fn flagz(&self, options: &Options) -> BTreeMap<String, String> {
        print_all(self.all_flags(), options)
    }

    /// The controller with this canonical name or alias.
    pub fn controller(&self, name: &str) -> Option<&'static Controller> {
        self.controllers.iter().find(|controller| controller.is_called(name))
    }

    /// A `--controllers` list with aliases replaced by canonical names, signs and order kept: what `/configz` shows.
    pub fn canonical(&self, list: &[String]) -> Result<Vec<String>, UnknownController> {
        select::canonical(self, list)
    }
}
