// A small CSI driver whose volumes are folders of its node, for the rig of `cargo xtask conformance`. It takes the place of the
// images that upstream's tests name hostpathplugin, csi-node-driver-registrar and livenessprobe, with their flags.
package main

import (
	"log"
	"os"
)

func main() {
	roles := map[string]func([]string) error{
		"hostpathplugin": runPlugin,
		"registrar":      runRegistrar,
		"livenessprobe":  runLivenessProbe,
		"idle":           func([]string) error { select {} },
	}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		log.Fatalf("usage: %s hostpathplugin|registrar|livenessprobe|idle [FLAGS]", os.Args[0])
	}
	if err := roles[os.Args[1]](os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}
