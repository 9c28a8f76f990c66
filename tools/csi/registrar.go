package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Tells the kubelet which driver has the socket.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, socket string
}

func runRegistrar(args []string) error {
	flags := flag.NewFlagSet("registrar", flag.ExitOnError)
	address := flags.String("csi-address", "/csi/csi.sock", "the driver's socket")
	path := flags.String("kubelet-registration-path", "", "the driver's socket as the kubelet finds it")
	folder := flags.String("registration-folder", "/registration", "where the kubelet looks for drivers")
	timeout := flags.Duration("timeout", time.Minute, "how long the driver may take to answer")
	flags.Int("v", 0, "not used")
	_ = flags.Parse(args)

	name, err := driverName(*address, *timeout)
	if err != nil {
		return err
	}
	listener, done, err := listen(filepath.Join(*folder, name+"-reg.sock"))
	if err != nil {
		return err
	}
	defer done()
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrar{name: name, socket: *path})
	return serve(server, listener)
}

func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		// It asks again, for example when its node exists.
		log.Printf("the kubelet refused the driver: %s", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Answers over HTTP whether the driver answers.
func runLivenessProbe(args []string) error {
	flags := flag.NewFlagSet("livenessprobe", flag.ExitOnError)
	address := flags.String("csi-address", "/csi/csi.sock", "the driver's socket")
	port := flags.Int("health-port", 9808, "where to serve /healthz")
	_ = flags.Parse(args)
	http.HandleFunc("/healthz", func(response http.ResponseWriter, _ *http.Request) {
		if _, err := driverName(*address, time.Second); err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
		}
	})
	return http.ListenAndServe(fmt.Sprintf(":%d", *port), nil)
}

func driverName(address string, timeout time.Duration) (string, error) {
	connection, err := grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("ask the driver for its name: %w", err)
	}
	return info.Name, nil
}
