package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// The label of a node that a volume is bound to: its folder is there.
const topologyKey = "topology.hostpath.csi/node"

type settings struct {
	driver, node, folder string
	maxVolumes           int64
	attach, topology     bool
	nodeExpansion        bool
	controllerExpansion  bool
	modify               bool
	// Parameters of a VolumeAttributesClass that the driver takes; empty for all.
	mutable []string
}

func runPlugin(args []string) error {
	flags := flag.NewFlagSet("hostpathplugin", flag.ExitOnError)
	endpoint := flags.String("endpoint", "unix:///csi/csi.sock", "where to serve")
	proxy := flags.String("proxy-endpoint", "", "do not be a driver; join connections with those to this endpoint")
	var s settings
	flags.StringVar(&s.driver, "drivername", "hostpath.csi.k8s.io", "the driver's name")
	flags.StringVar(&s.node, "nodeid", "", "the node's name")
	flags.StringVar(&s.folder, "statedir", "/csi-data-dir", "where the volumes are")
	flags.Int64Var(&s.maxVolumes, "maxvolumespernode", 0, "how many volumes a node takes")
	flags.Int64Var(&s.maxVolumes, "attach-limit", 0, "the same")
	flags.BoolVar(&s.attach, "enable-attach", false, "whether volumes are attached")
	flags.BoolVar(&s.topology, "enable-topology", true, "whether volumes are bound to a node")
	flags.BoolVar(&s.nodeExpansion, "node-expand-required", true, "whether a node takes part in expansion")
	flags.BoolVar(&s.controllerExpansion, "enable-volume-expansion", true, "whether volumes can be expanded")
	flags.BoolVar(&s.modify, "enable-controller-modify-volume", false, "whether volumes can be modified")
	mutable := flags.String("accepted-mutable-parameter-names", "", "what can be modified")
	flags.Bool("check-volume-lifecycle", false, "not used")
	flags.Int("v", 0, "not used")
	_ = flags.Parse(args)
	if *mutable != "" {
		s.mutable = strings.Split(*mutable, ",")
	}
	if *proxy != "" {
		return runProxy(*endpoint, *proxy)
	}
	if err := os.MkdirAll(s.folder, 0o750); err != nil {
		return err
	}
	listener, done, err := listen(*endpoint)
	if err != nil {
		return err
	}
	defer done()
	server := grpc.NewServer(grpc.UnaryInterceptor(logCall))
	csi.RegisterIdentityServer(server, &identity{settings: s})
	csi.RegisterControllerServer(server, &controller{settings: s, volumes: &volumes{folder: s.folder}})
	csi.RegisterNodeServer(server, &node{settings: s, volumes: &volumes{folder: s.folder}})
	return serve(server, listener)
}

// Tests read from the log what a driver was asked.
func logCall(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	response, err := handler(ctx, request)
	call := map[string]any{"Method": info.FullMethod, "Request": request, "Response": response, "Error": ""}
	if err != nil {
		call["Error"] = err.Error()
		call["FullError"] = status.Convert(err).Proto()
	}
	if text, err := json.Marshal(call); err == nil {
		log.Printf("gRPCCall: %s", text)
	}
	return response, err
}

type identity struct {
	csi.UnimplementedIdentityServer
	settings
}

func (i *identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.driver, VendorVersion: "1"}, nil
}

func (i *identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (i *identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_CONTROLLER_SERVICE}
	if i.topology {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	response := &csi.GetPluginCapabilitiesResponse{}
	for _, service := range services {
		response.Capabilities = append(response.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: service}},
		})
	}
	return response, nil
}
