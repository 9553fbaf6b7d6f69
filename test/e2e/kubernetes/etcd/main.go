// Command etcd is a single etcd on loopback, for a kube-apiserver of the end-to-end tests: etcd's own embed package and
// the two flags that kube-apiserver needs. etcd is a process of its own, so that it is built with the versions that Kubernetes
// wants, and continues to run while a kube-apiserver is restarted.
package main

import (
	"errors"
	"flag"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	dir := flag.String("data-dir", "", "directory of the data; made if missing")
	client := flag.String("listen-client", "", "URL to serve clients at")
	peer := flag.String("listen-peer", "", "URL to serve peers at; there are none")
	flag.Parse()
	if err := run(*dir, *client, *peer); err != nil {
		log.Fatal(err)
	}
}

func run(dir, client, peer string) error {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	for of, text := range map[*[]url.URL]string{
		&cfg.ListenClientUrls: client, &cfg.AdvertiseClientUrls: client, &cfg.ListenPeerUrls: peer, &cfg.AdvertisePeerUrls: peer,
	} {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		*of = []url.URL{*u}
	}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "warn"
	cfg.UnsafeNoFsync = true // the data are gone with the test
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return errors.New("etcd is not ready within a minute")
	}
	select {
	case <-stop:
		return nil
	case err := <-e.Err():
		return err
	}
}
