package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/hook/guard"
)

// listeners are the server's addresses, and what callers must present there.
type listeners struct {
	listen, healthListen                 string
	guard                                guard.Config
	allowUnauthenticated, allowPlainHTTP bool
	// loopbackOnly: the command has no flags for protection.
	loopbackOnly bool
}

func (d *listeners) flags(c *cobra.Command) {
	f := c.Flags()
	text := func(p *string, name, value, usage string) {
		f.StringVar(p, name, value, usage)
		if value == "" {
			_ = c.MarkFlagFilename(name)
		}
	}
	text(&d.listen, "listen", "127.0.0.1:8080", "address of the hooks, /plan, the page, /groups and /sd")
	text(&d.healthListen, "health-listen", "127.0.0.1:8081", "address of /healthz, /readyz and /metrics, in plain HTTP; empty for none")
	text(&d.guard.CertFile, "tls-cert-file", "", "PEM file of the hooks' certificate, with its chain; all files here are read again when they change")
	text(&d.guard.KeyFile, "tls-private-key-file", "", "PEM file of the hooks' private key")
	text(&d.guard.ClientCAFile, "client-ca-file", "", "PEM file of the CAs that must have signed callers' certificates")
	f.StringSliceVar(&d.guard.TokenFiles, "token-file", nil, "file with a bearer `token` that callers must present; repeat the flag, or separate several with commas: each token is valid, and one file can be missing (so that you can rotate a token without an outage)")
	f.StringSliceVar(&d.guard.ReaderTokenFiles, "reader-token-file", nil, "file with a bearer `token` that allows only GET of the page, /groups, /slots and /sd; like --token-file, but all files can be missing")
	f.BoolVar(&d.allowUnauthenticated, "allow-unauthenticated", false, "serve the hooks without authentication on an address that is not loopback: anyone who can reach it can create and destroy VMs")
	f.BoolVar(&d.allowPlainHTTP, "allow-plain-http", false, "accept tokens without TLS on an address that is not loopback, where something else encrypts the connection, such as a service mesh")
	section(f, "Addresses, and who can call")
}

// refuseEmptyFiles refuses a file flag with an empty value, as from a shell variable that is not set: the server would skip the
// authentication of its hooks.
func refuseEmptyFiles(c *cobra.Command) error {
	for _, name := range []string{"tls-cert-file", "tls-private-key-file", "client-ca-file", "token-file", "reader-token-file"} {
		f := c.Flags().Lookup(name)
		if text := f.Value.String(); f.Changed && (text == "" || text == "[]") {
			return usageError{fmt.Errorf("--%s: is empty; name a file, or omit the flag", name)}
		}
	}
	return nil
}

// Limits of one HTTP exchange. They close slow connections; Metacontroller itself gives up after 10 s. Metacontroller has a connection for
// each of its five workers and three hooks. Half of all connections can come from one address, because in some networks all callers have
// the same address. Probes and scrapes are few, and each opens a new connection; if probes get no connection, Kubernetes restarts the pods.
var (
	hookLimits = guard.Limits{
		Header: 5 * time.Second, Read: 15 * time.Second, Write: 30 * time.Second, Idle: 2 * time.Minute, HeaderBytes: 8 << 10,
		Connections: 1024, PerAddress: 512,
	}
	healthLimits = guard.Limits{
		Header: 5 * time.Second, Read: 5 * time.Second, Write: 10 * time.Second, Idle: 5 * time.Second, HeaderBytes: 8 << 10,
		Connections: 256, PerAddress: 16,
	}
)

// opened has the two open listeners, and the guard of the hooks.
type opened struct {
	hooks, health net.Listener // health can be nil
	guard         *guard.Guard
	clients       leaving // of the hooks
}

func (o *opened) close() {
	_ = o.hooks.Close()
	if o.health != nil {
		_ = o.health.Close()
	}
}

// open opens the listeners. It refuses to serve the hooks without authentication on an address that others can reach.
func (d *listeners) open(log zerolog.Logger, meter prometheus.Registerer) (*opened, error) {
	hooks, err := net.Listen("tcp", d.listen)
	if err != nil {
		return nil, usageError{cannotListen("listen", d.listen, err)}
	}
	o := &opened{hooks: hooks}
	here := loopback(hooks.Addr())
	cfg := d.guard
	cfg.Log, cfg.Meter = log, meter
	cfg.LocalNames = here && len(cfg.TokenFiles) == 0 && cfg.ClientCAFile == ""
	if o.guard, err = guard.New(cfg); err == nil && !here {
		err = d.checkExposure(o.guard, log)
	}
	if err != nil {
		o.close()
		return nil, usageError{err}
	}
	o.hooks = o.guard.Listen(hooks, hookLimits)
	if d.healthListen == "" {
		return o, nil
	}
	health, err := net.Listen("tcp", d.healthListen)
	if err != nil {
		o.close()
		return nil, usageError{cannotListen("health-listen", d.healthListen, err)}
	}
	o.health = guard.Bound(health, healthLimits, func(string) {})
	return o, nil
}

// cannotListen says which flag sets another address, if another process uses this one.
func cannotListen(flag, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("another process listens on %s: choose another address with --%s", address, flag)
	}
	return fmt.Errorf("--%s %s: %w", flag, address, err)
}

// checkExposure checks the protection of an address that others can reach.
func (d *listeners) checkExposure(g *guard.Guard, log zerolog.Logger) error {
	switch {
	case d.loopbackOnly:
		return fmt.Errorf("--listen %s: others can reach it, and the demo has no protection: use a loopback address, such as 127.0.0.1:8080 (vmgroup serve --simulator can listen elsewhere)", d.listen)
	case !g.Authenticates() && !d.allowUnauthenticated:
		return fmt.Errorf("--listen %s: others can reach it, and anyone who calls the hooks can create and destroy VMs: set --token-file or --client-ca-file, with --tls-cert-file and --tls-private-key-file; or set --allow-unauthenticated", d.listen)
	case !g.Authenticates():
		log.Warn().Msg("--allow-unauthenticated: anyone who can reach this address can create and destroy VMs")
	case !g.Encrypts() && !d.allowPlainHTTP:
		return fmt.Errorf("--listen %s: others can reach it, and without TLS they can read the token on the network: set --tls-cert-file and --tls-private-key-file; or, where something else encrypts the connection, --allow-plain-http", d.listen)
	case !g.Encrypts():
		log.Warn().Msg("--allow-plain-http: unless something else encrypts the connection, others on the network can read the token and the user data")
	}
	return nil
}

func loopback(a net.Addr) bool {
	tcp, isTCP := a.(*net.TCPAddr)
	return isTCP && tcp.IP.IsLoopback()
}

// serve serves both listeners; the first server of the result is that of the hooks. failed gets the error of the first one that
// ends by itself.
func (o *opened) serve(hooks, health http.Handler, log zerolog.Logger, failed chan<- error) (servers []*http.Server) {
	serve := func(s *http.Server, l net.Listener) {
		run := s.Serve
		if s.TLSConfig != nil {
			run = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
		go func() {
			if err := run(l); !errors.Is(err, http.ErrServerClosed) {
				select {
				case failed <- err:
				default: // the other one was first
				}
			}
		}()
		servers = append(servers, s)
	}
	server := o.guard.Server(hooks, hookLimits)
	o.clients.watch(server)
	serve(server, o.hooks)
	if o.health != nil {
		serve(guard.NewServer(health, healthLimits, log, nil), o.health)
	}
	return servers
}
