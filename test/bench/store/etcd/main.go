package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/drover-fleet/drover/test/bench/store/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say serve, load or leader")
	}
	switch args[0] {
	case "serve":
		return serve(ctx, args[1:])
	case "load":
		return load.Main(ctx, dial, os.Stdin, os.Stdout)
	case "leader":
		return leader(ctx)
	}
	return fmt.Errorf("%q: say serve, load or leader", args[0])
}

// startTime is how long a member may take until it has joined the others.
const startTime = 30 * time.Second

// serve runs one member until ctx ends. Everything that is not an address or a file is etcd's default.
func serve(ctx context.Context, args []string) error {
	c := embed.NewConfig()
	var client, peer, ca, cert, key string
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&c.Name, "name", "", "the member's name")
	flags.StringVar(&c.Dir, "dir", "", "the member's directory")
	flags.StringVar(&c.InitialCluster, "initial-cluster", "", "NAME=PEER-URL,...")
	flags.StringVar(&client, "client", "", "URL for clients")
	flags.StringVar(&peer, "peer", "", "URL for other members")
	flags.StringVar(&ca, "ca", "", "PEM file of the CA")
	flags.StringVar(&cert, "cert", "", "PEM file of the certificate")
	flags.StringVar(&key, "key", "", "PEM file of its key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	clientURL, err := url.Parse(client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*clientURL}, []url.URL{*clientURL}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peerURL}, []url.URL{*peerURL}
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = cert, key
	c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = ca, true
	c.PeerTLSInfo.CertFile, c.PeerTLSInfo.KeyFile = cert, key
	c.PeerTLSInfo.TrustedCAFile, c.PeerTLSInfo.ClientCertAuth = ca, true
	c.LogLevel = "warn"
	e, err := embed.StartEtcd(c)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	case <-time.After(startTime):
		return fmt.Errorf("member %s did not become ready", c.Name)
	}
	select {
	case err := <-e.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}

// leader prints the endpoint of the member that leads.
func leader(ctx context.Context) error {
	var s load.Spec
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	for _, e := range s.Endpoints {
		leads, err := leads(ctx, &s, e)
		if err != nil {
			return err
		}
		if leads {
			fmt.Println(e)
			return nil
		}
	}
	return fmt.Errorf("no member leads")
}

func leads(ctx context.Context, s *load.Spec, endpoint string) (bool, error) {
	c, err := connect(s, endpoint)
	if err != nil {
		return false, err
	}
	defer c.Close()
	r, err := c.Status(ctx, endpoint)
	if err != nil {
		return false, err
	}
	return r.Leader == r.Header.MemberId, nil
}
