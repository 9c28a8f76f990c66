//! Flags of metrics and logs, of the connection to the API server, and the two that print and end.

use crate::flags::{
    Effect::Unsupported,
    Field::{Bool, Duration, Help, Level, List, Map, Modules, Quantity, Text, Version},
    Flag, Section,
};

const UNBUFFERED: &str = "log lines are written at once";

#[rustfmt::skip]
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "metrics", flags: &[
        Flag::new("allow-metric-labels", Map(|o| &mut o.metrics.allow_labels),
            "The values a metric's label may have, as metric,label=value,value. Any other value is shown as \
             'unexpected'. May be repeated."),
        Flag::new("allow-metric-labels-manifest", Text(|o| &mut o.metrics.allow_labels_manifest),
            "YAML file with such lists under allowListMapping. The flag above wins over the file."),
        Flag::new("disabled-metrics", List(|o| &mut o.metrics.disabled), "Metrics to leave out, by full name."),
        Flag::new("show-hidden-metrics-for-version", Text(|o| &mut o.metrics.show_hidden_for_version),
            "Show what was hidden since this version; only the previous minor one, 1.35, is allowed."),
    ]},
    Section { name: "logs", flags: &[
        Flag::new("log-flush-frequency", Duration(|o| &mut o.logging.flush_frequency),
            "How often buffered lines are flushed.").effect(Unsupported(UNBUFFERED)),
        Flag::new("log-json-info-buffer-size", Quantity(|o| &mut o.logging.json_info_buffer_size),
            "Buffer of the JSON format's info stream. Needs the feature gate LoggingAlphaOptions.")
            .effect(Unsupported(UNBUFFERED)),
        Flag::new("log-json-split-stream", Bool(|o| &mut o.logging.json_split_stream),
            "In the JSON format, errors to stderr and the rest to stdout. Needs the feature gate LoggingAlphaOptions."),
        Flag::new("log-text-info-buffer-size", Quantity(|o| &mut o.logging.text_info_buffer_size),
            "Buffer of the text format's info stream. Needs the feature gate LoggingAlphaOptions.")
            .effect(Unsupported(UNBUFFERED)),
        Flag::new("log-text-split-stream", Bool(|o| &mut o.logging.text_split_stream),
            "In the text format, errors to stderr and the rest to stdout. Needs the feature gate LoggingAlphaOptions."),
        Flag::new("logging-format", Text(|o| &mut o.logging.format), "How log lines look: text or json."),
        Flag::new("v", Level(|o| &mut o.logging.verbosity),
            "How much is logged: 0 what happens, 2 and up why, 4 and up every decision, 6 and up everything.")
            .short('v'),
        Flag::new("vmodule", Modules(|o| &mut o.logging.vmodule),
            "More detail for some modules only, as pattern=N,pattern=N. Text format only."),
    ]},
    Section { name: "misc", flags: &[
        Flag::new("kubeconfig", Text(|o| &mut o.config.generic.client_connection.kubeconfig),
            "How to reach the API server and with what credentials. Without it and --master, those of the pod this \
             runs in."),
        Flag::new("master", Text(|o| &mut o.master), "Address of the API server, over that of the kubeconfig."),
    ]},
    Section { name: "global", flags: &[
        Flag::new("help", Help, "Print this page.").short('h'),
        Flag::new("version", Version, "Print the version; --version=raw prints every detail."),
    ]},
];
