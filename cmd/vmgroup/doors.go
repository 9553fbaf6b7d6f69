package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/hook/guard"
)

// doors are where the server can be called, and what callers must show there.
type doors struct {
	listen, healthListen                 string
	guard                                guard.Config
	allowUnauthenticated, allowPlainHTTP bool
}

func (d *doors) flags(c *cobra.Command) {
	f := c.Flags()
	text := func(p *string, name, variable, value, usage string) {
		f.StringVar(p, name, value, usage)
		env(f, name, variable)
		if value == "" {
			_ = c.MarkFlagFilename(name)
		}
	}
	text(&d.listen, "listen", "VMGROUP_LISTEN", "127.0.0.1:8080", "address of the hooks, /plan, /groups and /sd")
	text(&d.healthListen, "health-listen", "VMGROUP_HEALTH_LISTEN", "127.0.0.1:8081", "address of /healthz, /readyz and /metrics, in plain HTTP; empty: none")
	text(&d.guard.CertFile, "tls-cert-file", "VMGROUP_TLS_CERT_FILE", "", "PEM file of the certificate, with its chain, that the hooks are served with; read again when it changes, as are all files here")
	text(&d.guard.KeyFile, "tls-private-key-file", "VMGROUP_TLS_PRIVATE_KEY_FILE", "", "PEM file of its key")
	text(&d.guard.ClientCAFile, "client-ca-file", "VMGROUP_CLIENT_CA_FILE", "", "PEM file of the authorities that a caller's certificate must be signed by")
	f.StringSliceVar(&d.guard.TokenFiles, "token-file", nil, "file of a bearer `token` that callers must show; repeat it, or put commas between several: each is good, and one may be missing (so a token is changed without a gap)")
	env(f, "token-file", "VMGROUP_TOKEN_FILE")
	f.StringSliceVar(&d.guard.ReaderTokenFiles, "reader-token-file", nil, "file of a bearer `token` that may only GET /groups and /sd; as --token-file, but all may be missing")
	env(f, "reader-token-file", "VMGROUP_READER_TOKEN_FILE")
	f.BoolVar(&d.allowUnauthenticated, "allow-unauthenticated", false, "serve the hooks to everybody who reaches an address that is not loopback: they may make and destroy VMs")
	env(f, "allow-unauthenticated", "VMGROUP_ALLOW_UNAUTHENTICATED")
	f.BoolVar(&d.allowPlainHTTP, "allow-plain-http", false, "take tokens without TLS on an address that is not loopback: for where something else encrypts the way, such as a service mesh")
	env(f, "allow-plain-http", "VMGROUP_ALLOW_PLAIN_HTTP")
}

// emptyLocks refuses a lock that is given as nothing, as by a shell's variable that is not set: the door would be open.
func emptyLocks(c *cobra.Command) error {
	for _, name := range []string{"tls-cert-file", "tls-private-key-file", "client-ca-file", "token-file", "reader-token-file"} {
		f := c.Flags().Lookup(name)
		if text := f.Value.String(); f.Changed && (text == "" || text == "[]") {
			return usageError{fmt.Errorf("--%s: it is empty; name a file, or leave it out", name)}
		}
	}
	return nil
}

// Limits of one HTTP exchange. A slow client is cut off; Metacontroller gives up after 10 s itself. It has a connection for each of
// its five workers and three hooks; half of all connections may come from one address, since behind some networks all
// callers have the same. Probes and scrapes are few, and each comes anew; who keeps them from their place has the pods restarted.
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

// opened are the two listeners, and who is let in.
type opened struct {
	hooks, health net.Listener // health is nil where none is wanted
	guard         *guard.Guard
}

func (o *opened) close() {
	_ = o.hooks.Close()
	if o.health != nil {
		_ = o.health.Close()
	}
}

// open listens, and refuses what would let strangers in.
func (d *doors) open(log zerolog.Logger, meter prometheus.Registerer) (*opened, error) {
	hooks, err := net.Listen("tcp", d.listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("--listen %s: %w", d.listen, err)}
	}
	o := &opened{hooks: hooks}
	here := loopback(hooks.Addr())
	cfg := d.guard
	cfg.Log, cfg.Meter = log, meter
	cfg.LocalNames = here && len(cfg.TokenFiles) == 0 && cfg.ClientCAFile == ""
	if o.guard, err = guard.New(cfg); err == nil && !here {
		err = d.mayOpen(o.guard, log)
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
		return nil, usageError{fmt.Errorf("--health-listen %s: %w", d.healthListen, err)}
	}
	o.health = guard.Bound(health, healthLimits, func(string) {})
	return o, nil
}

// mayOpen decides about an address that others can reach.
func (d *doors) mayOpen(g *guard.Guard, log zerolog.Logger) error {
	switch {
	case !g.Authenticates() && !d.allowUnauthenticated:
		return fmt.Errorf("--listen %s can be reached by others, and who calls the hooks makes and destroys VMs: give --token-file, or --client-ca-file, with --tls-cert-file and --tls-private-key-file; or say --allow-unauthenticated", d.listen)
	case !g.Authenticates():
		log.Warn().Msg("--allow-unauthenticated: whoever reaches this address may make and destroy VMs")
	case !g.Encrypts() && !d.allowPlainHTTP:
		return fmt.Errorf("--listen %s can be reached by others, and without TLS whoever is on the way reads the token: give --tls-cert-file and --tls-private-key-file; or, where something else encrypts the way, say --allow-plain-http", d.listen)
	case !g.Encrypts():
		log.Warn().Msg("--allow-plain-http: whoever is on the way can read the token and the user data, unless something else encrypts it")
	}
	return nil
}

func loopback(a net.Addr) bool {
	tcp, isTCP := a.(*net.TCPAddr)
	return isTCP && tcp.IP.IsLoopback()
}

// serve serves both; failed gets the error of the first that ends by itself. The first of the result serves the hooks.
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
	serve(o.guard.Server(hooks, hookLimits), o.hooks)
	if o.health != nil {
		serve(guard.NewServer(health, healthLimits, log, nil), o.health)
	}
	return servers
}
