// Facts about the feature gates that kube-controller-manager accepts, from the pinned Go modules.
//
//	cd tools/controlplane
//	go run ./gates table > ../../crates/runtime/src/gates/table.rs
//	go run ./gates vectors SEED COUNT    # random settings at random versions, and what became of them
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logs "k8s.io/component-base/logs/api/v1"
	metrics "k8s.io/component-base/metrics/features"
	"k8s.io/klog/v2"

	_ "k8s.io/apiextensions-apiserver/pkg/features"
	_ "k8s.io/controller-manager/pkg/features/register"
	_ "k8s.io/kubernetes/pkg/features"
)

const (
	oldest = 33
	newest = 36
)

func main() {
	must(logs.AddFeatureGates(feature.DefaultMutableFeatureGate))
	must(metrics.AddFeatureGates(feature.DefaultMutableFeatureGate))
	switch {
	case len(os.Args) == 2 && os.Args[1] == "table":
		table()
	case len(os.Args) == 4 && os.Args[1] == "vectors":
		vectors(number(os.Args[2]), int(number(os.Args[3])))
	default:
		fmt.Fprintln(os.Stderr, "usage: gates table | gates vectors SEED COUNT")
		os.Exit(2)
	}
}

func names() []string {
	all := feature.DefaultMutableFeatureGate.GetAllVersioned()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

// Prints the table as Rust, a row for each gate.
func table() {
	fmt.Print(`//! Every feature gate that v1.36.4 accepts, including those of other components, with its history. Printed by
//! ` + "`tools/controlplane/gates`" + ` from the pinned Go modules; nothing here is written by hand.
//!
//! For the next release: pin its modules in tools/controlplane/go.mod, set the versions in ` + "`version.rs`" + ` and in the
//! tool, print this file again, and let the tests of this module name the gates that came and went.

use super::history::{
    History,
    Stage::{Alpha, Beta, Deprecated, Ga},
    gate, since,
};

const OFF: bool = false;
const ON: bool = true;

/// Sorted by name, so that a look-up is a binary search.
#[rustfmt::skip]
pub(super) const TABLE: &[History] = &[
`)
	all, needs := feature.DefaultMutableFeatureGate.GetAllVersioned(), feature.DefaultMutableFeatureGate.Dependencies()
	for _, name := range names() {
		var history, others []string
		for _, spec := range all[featuregate.Feature(name)] {
			history = append(history, entry(spec))
		}
		for _, other := range needs[featuregate.Feature(name)] {
			others = append(others, strconv.Quote(string(other)))
		}
		row := fmt.Sprintf("gate(%q, &[%s])", name, strings.Join(history, ", "))
		if len(others) > 0 {
			row += ".needs(&[" + strings.Join(others, ", ") + "])"
		}
		fmt.Printf("    %s,\n", row)
	}
	fmt.Println("];")
}

func entry(spec featuregate.FeatureSpec) string {
	stages := map[string]string{"ALPHA": "Alpha", "BETA": "Beta", "": "Ga", "DEPRECATED": "Deprecated"}
	onOff := map[bool]string{false: "OFF", true: "ON"}
	text := fmt.Sprintf("since(%s, %s, %s)", pair(spec.Version), stages[string(spec.PreRelease)], onOff[spec.Default])
	if spec.LockToDefault {
		text += ".locked()"
	}
	if spec.MinCompatibilityVersion != nil {
		text += ".compatible_with(" + pair(spec.MinCompatibilityVersion) + ")"
	}
	return text
}

func pair(v *version.Version) string {
	return fmt.Sprintf("%d, %d", v.Major(), v.Minor())
}

type vector struct {
	Emulated string `json:"emulated"`
	Settings string `json:"settings"`
	// Whether it was accepted, and then every gate of that version: its stage and whether it is on.
	Accepted bool                `json:"accepted"`
	Gates    map[string][]string `json:"gates,omitempty"`
}

// Prints vectors as lines of JSON. Most settings name one or two gates, some a group, some many.
func vectors(seed int64, count int) {
	klog.SetLogger(klog.Logger{})
	random := rand.New(rand.NewSource(seed))
	known := names()
	out := json.NewEncoder(os.Stdout)
	for range count {
		emulated := version.MajorMinor(1, uint(oldest+random.Intn(newest-oldest+1)))
		var settings []string
		for range []int{1, 1, 1, 2, 2, 3, 8}[random.Intn(7)] {
			name := known[random.Intn(len(known))]
			if random.Intn(8) == 0 {
				name = []string{"AllAlpha", "AllBeta"}[random.Intn(2)]
			}
			settings = append(settings, fmt.Sprintf("%s=%t", name, random.Intn(2) == 0))
		}
		v := vector{Emulated: emulated.String(), Settings: strings.Join(settings, ",")}
		gate := feature.DefaultMutableFeatureGate.DeepCopy()
		must(gate.SetEmulationVersion(emulated))
		v.Accepted = gate.Set(v.Settings) == nil
		if v.Accepted {
			v.Gates = map[string][]string{}
			for name, spec := range gate.GetAll() {
				v.Gates[string(name)] = []string{string(spec.PreRelease), strconv.FormatBool(gate.Enabled(name))}
			}
		}
		must(out.Encode(v))
	}
}

func number(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return number
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
