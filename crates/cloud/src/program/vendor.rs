//! The flags of cloud providers, as part of the command line.

use flyball_manager::Component;
use flyball_manager::flags::{Field, Section};

use crate::Provider;

/// The component with the flags of all providers, each under its provider's name; the component itself if they have none. Or
/// the vendor's mistake.
pub(super) fn with_flags(
    component: &'static Component,
    providers: &'static [Provider],
) -> Result<&'static Component, String> {
    let sections: Vec<Section> = providers
        .iter()
        .filter(|provider| !provider.flags.is_empty())
        .map(|provider| Section { name: provider.name, flags: provider.flags })
        .collect();
    if sections.is_empty() {
        return Ok(component);
    }
    let mut names: Vec<&str> = component.all_flags().map(|flag| flag.name).collect();
    for (section, flag) in
        sections.iter().flat_map(|section| section.flags.iter().map(move |flag| (section, flag)))
    {
        let provider = section.name;
        if names.contains(&flag.name) {
            return Err(format!(
                "the cloud provider {provider:?} adds the flag --{}, which exists",
                flag.name
            ));
        }
        names.push(flag.name);
        if let Field::Vendor(field) = flag.field
            && let Some(problem) = field.problem()
        {
            return Err(format!("the cloud provider {provider:?}: {problem}"));
        }
    }
    let tables: Vec<&'static [Section]> =
        component.flags.iter().copied().chain([&*Box::leak(sections.into_boxed_slice())]).collect();
    // Once in the life of a process, for as long as it lives.
    Ok(Box::leak(Box::new(Component { flags: Box::leak(tables.into_boxed_slice()), ..*component })))
}
