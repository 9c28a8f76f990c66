// Upstream's cloud-controller-manager over upstream's fake cloud, which follows a file as our simulated cloud does: the
// oracle of the golden scenarios `cloud-*`. `cargo xtask assets` builds it as cloud-controller-manager.
//
//	go run ./cloud --cloud-provider=simulated --cloud-config=cloud.yaml --kubeconfig=...
package main

import (
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

func main() {
	cloudprovider.RegisterCloudProvider(provider, func(io.Reader) (cloudprovider.Interface, error) { return nil, nil })
	flags, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("default options: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(flags, open, app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

func open(completed *config.CompletedConfig) cloudprovider.Interface {
	file := completed.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile
	cloud, err := openCloud(file)
	if err != nil {
		klog.Fatalf("--cloud-config: %v", err)
	}
	return cloud
}
