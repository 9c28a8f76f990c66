//! What would stop a controller from being set up, found before the process connects to anything: keys, certificates and
//! templates in the files that flags name.
//!
//! Upstream: cmd/kube-controller-manager/app/controllermanager.go, `BuildControllers`: a controller that cannot be built ends the
//! process. Upstream does that as the leader, so that the lease is not renewed while every replica tries in turn.

use flyball_runtime::StartError;

use crate::prepare::Prepared;

/// Every problem of the controllers that are to run, one line each.
pub fn preflight(prepared: &Prepared) -> Result<(), Vec<String>> {
    let mut problems = vec![];
    for controller in &prepared.controllers {
        if let Err(StartError::Misconfigured(problem)) = (controller.check)(&prepared.options.config)
            && !problems.contains(&problem)
        {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KUBE_CONTROLLER_MANAGER, flags::Invocation, prepare};

    fn problems(arguments: &[String]) -> Vec<String> {
        let Ok(Invocation::Run(parsed)) = KUBE_CONTROLLER_MANAGER.parse(arguments) else {
            panic!("{arguments:?}")
        };
        preflight(&prepare(*parsed).unwrap()).err().unwrap_or_default()
    }

    #[test]
    fn a_file_that_a_controller_cannot_use_ends_the_process_before_it_connects() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file").display().to_string();
        std::fs::write(&file, "nothing of this kind\n").unwrap();
        const NO_CERTIFICATE: &str = "it holds no certificate in PEM form";
        const NO_KEY: &str = "it holds no private key in PEM form";
        #[rustfmt::skip]
        let table: &[(&[&str], &str)] = &[
            // arguments (FILE is one with another content)                     problem
            (&[],                                                               ""),
            (&["--root-ca-file=FILE"],                                          NO_CERTIFICATE),
            (&["--root-ca-file=FILE", "--controllers=*,-root-ca-cert-publisher"], ""),
            (&["--service-account-private-key-file=FILE"],                      NO_KEY),
            (&["--service-account-private-key-file=FILE", "--controllers=deployment"],  NO_KEY),
            (&["--cluster-signing-cert-file=FILE", "--cluster-signing-key-file=FILE"], "(FILE, FILE): "),
            (&["--cluster-signing-cert-file=FILE"],                             ""),
            (&["--cluster-signing-cert-file=FILE", "--cluster-signing-key-file=FILE", "--controllers=*,-csrsigning"], ""),
            (&["--cluster-signing-kubelet-client-cert-file=FILE", "--cluster-signing-kubelet-client-key-file=FILE"], "(FILE, FILE): "),
            (&["--pv-recycler-pod-template-filepath-nfs=FILE"],                 "it must be a Pod"),
            (&["--pv-recycler-pod-template-filepath-hostpath=FILE"],            "it must be a Pod"),
            (&["--pv-recycler-pod-template-filepath-nfs=FILE", "--controllers=persistentvolume-expander"], "it must be a Pod"),
            (&["--pv-recycler-pod-template-filepath-nfs=FILE", "--controllers=deployment"], ""),
            (&["--legacy-service-account-token-clean-up-period=0"],             "must be longer than zero"),
            (&["--legacy-service-account-token-clean-up-period=0", "--controllers=deployment"], ""),
        ];
        for (arguments, want) in table {
            let given: Vec<String> = arguments.iter().map(|flag| flag.replace("FILE", &file)).collect();
            let (found, want) = (problems(&given).join("\n"), want.replace("FILE", &file));
            assert_eq!(found.is_empty(), want.is_empty(), "{arguments:?}: {found}");
            assert!(found.contains(&want) && !found.contains('\n'), "{arguments:?}: {found}");
            let flag = given.first().and_then(|flag| flag.split('=').next()).unwrap_or_default();
            assert!(found.is_empty() || found.contains(flag.trim_start_matches('-')), "{found}");
        }
    }
}
