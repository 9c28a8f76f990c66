package main

import (
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"
)

// Listens on unix:///path, /path or tcp://host:port. The second result removes the socket.
func listen(endpoint string) (net.Listener, func(), error) {
	if address, isTCP := strings.CutPrefix(endpoint, "tcp://"); isTCP {
		listener, err := net.Listen("tcp", address)
		return listener, func() {}, err
	}
	path := strings.TrimPrefix(endpoint, "unix://")
	// Left by a container that was killed.
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	return listener, func() { _ = os.Remove(path) }, err
}

// Serves until the container is stopped.
func serve(server *grpc.Server, listener net.Listener) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		server.Stop()
	}()
	return server.Serve(listener)
}

// Joins every connection to one endpoint with the next one to the other: a test is the driver, and reaches the kubelet and the
// sidecars in this way.
func runProxy(endpoint, proxyEndpoint string) error {
	drivers, done, err := listen(proxyEndpoint)
	if err != nil {
		return err
	}
	defer done()
	clients, done, err := listen(endpoint)
	if err != nil {
		return err
	}
	defer done()
	for {
		client, err := clients.Accept()
		if err != nil {
			return err
		}
		driver, err := drivers.Accept()
		if err != nil {
			return err
		}
		go join(client, driver)
		go join(driver, client)
	}
}

func join(from, to net.Conn) {
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		log.Print(err)
	}
}
