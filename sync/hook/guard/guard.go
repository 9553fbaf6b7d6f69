// Package guard is the door of the hooks: it tells callers from strangers (a bearer token, a client's certificate, or both),
// before a byte of a body is read and before a stranger can take a place in a queue, and it bounds what a stranger can hold open
// meanwhile. It knows nothing of hooks.
//
//	a certificate or key that is broken     the pair before is shown on
//	a token file, an authority that is      nobody gets in by it: to empty the file is to lock out
//	broken, empty or gone
//
// All files are read again when they change; nothing is started anew for it.
package guard

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
)

// Config says what callers must show. With neither tokens nor ClientCAFile anybody may call.
type Config struct {
	// CertFile and KeyFile are the server's certificate, with its chain, and its key, in PEM; both or none.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities, in PEM, one of which must have signed a caller's certificate.
	ClientCAFile string
	// TokenFiles hold a token each, of those who may do everything. One that is missing or empty holds none.
	TokenFiles []string
	// ReaderTokenFiles hold a token each, of those who may GET, and nothing else.
	ReaderTokenFiles []string
	// LocalNames admits only requests for localhost or an address: on loopback without authentication, a web page that has
	// its own name lead to 127.0.0.1 would get through otherwise.
	LocalNames bool
	Log        zerolog.Logger
	Meter      prometheus.Registerer // may be nil
}

// Guard lets callers in. All methods may be called from any goroutine.
type Guard struct {
	cfg     Config
	keys    *watched[keys]    // nil: no token is asked for
	pair    *watched[shown]   // nil: no TLS
	callers *watched[callers] // nil: no certificate is asked for
	refused *prometheus.CounterVec
	quiet   map[reason]*quiet
}

// reason says in the metric and the log why a caller was refused.
type reason string

const (
	noToken     reason = "no-token"
	wrongToken  reason = "wrong-token"
	onlyReads   reason = "reader" // a reader's token where more is needed
	certificate reason = "certificate"
	handshake   reason = "handshake"
	foreignName reason = "host-name"
	tooMany     reason = "connections"
)

// New reads all files, and says what is wrong with them by their flags.
func New(cfg Config) (*Guard, error) {
	g := &Guard{cfg: cfg, quiet: map[reason]*quiet{}}
	g.refused = promauto.With(cfg.Meter).NewCounterVec(prometheus.CounterOpts{
		Name: "vmgroup_refused_total", Help: "Connections and calls that were refused before they were looked at, by reason.",
	}, []string{"reason"})
	for _, r := range []reason{noToken, wrongToken, onlyReads, certificate, handshake, foreignName, tooMany} {
		g.refused.WithLabelValues(string(r))
		g.quiet[r] = &quiet{}
	}
	err := errors.Join(g.openPair(), g.openCallers(), g.openTokens())
	promauto.With(cfg.Meter).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vmgroup_key_files_unreadable", Help: "Files of tokens, certificates and authorities that cannot be read.",
	}, func() float64 { return float64(g.unreadable()) })
	return g, err
}

func (g *Guard) unreadable() (n int) {
	if g.pair != nil {
		n += g.pair.unreadable()
	}
	if g.callers != nil {
		n += g.callers.unreadable()
	}
	if g.keys != nil {
		n += g.keys.unreadable()
	}
	return n
}

// Ready says why nobody can call the hooks, whatever they show; nil if somebody can.
func (g *Guard) Ready() error {
	if g.keys != nil && len(g.keys.now().hooks) == 0 {
		return errors.New("no token for the hooks can be read: see to the files of --token-file")
	}
	if g.callers != nil && g.callers.now().err != nil {
		return errors.New("no authority of callers can be read: see to the file of --client-ca-file")
	}
	return nil
}

func (g *Guard) openPair() error {
	cert, key := g.cfg.CertFile, g.cfg.KeyFile
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("--tls-cert-file and --tls-private-key-file: give both, or none")
	}
	first := true
	g.pair = &watched[shown]{paths: []string{cert, key}, every: rereadEvery, parse: func(before shown, files []content) shown {
		s := parsePair(before, files)
		switch {
		case first:
		case s.err != nil:
			g.cfg.Log.Error().Err(s.err).Msg("the new certificate is broken: the one before is shown on")
		default:
			g.cfg.Log.Info().Str("file", cert).Time("expires", s.pair.Leaf.NotAfter).Msg("certificate read again")
		}
		if s.pair != nil && s.expired(time.Now()) {
			g.cfg.Log.Error().Str("file", cert).Time("expires", s.pair.Leaf.NotAfter).Msg("the certificate has expired: callers will refuse it")
		}
		return s
	}}
	s := g.pair.now()
	if first = false; s.err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", s.err)
	}
	promauto.With(g.cfg.Meter).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vmgroup_certificate_expiry_seconds", Help: "When the certificate that callers see ends, in seconds since 1970.",
	}, func() float64 { return g.pair.now().expires() })
	return nil
}

func (g *Guard) openCallers() error {
	if g.cfg.ClientCAFile == "" {
		return nil
	}
	if g.pair == nil {
		return errors.New("--client-ca-file: it needs --tls-cert-file and --tls-private-key-file")
	}
	first := true
	g.callers = &watched[callers]{paths: []string{g.cfg.ClientCAFile}, every: rereadEvery, parse: func(before callers, files []content) callers {
		c := parseCallers(before, files)
		switch {
		case first:
		case c.err != nil:
			g.cfg.Log.Error().Err(c.err).Msg("no authority for callers is left: nobody may call")
		default:
			g.cfg.Log.Info().Str("file", g.cfg.ClientCAFile).Msg("authorities of callers read again")
		}
		return c
	}}
	c := g.callers.now()
	if first = false; c.err != nil {
		return fmt.Errorf("--client-ca-file: %w", c.err)
	}
	return nil
}

func (g *Guard) openTokens() error {
	if len(g.cfg.TokenFiles) == 0 {
		if len(g.cfg.ReaderTokenFiles) > 0 {
			return errors.New("--reader-token-file: it needs --token-file, or readers alone would have to show a token")
		}
		return nil
	}
	for _, path := range g.cfg.ReaderTokenFiles {
		if slices.Contains(g.cfg.TokenFiles, path) {
			return fmt.Errorf("--reader-token-file and --token-file name the same file %s", path)
		}
	}
	first := true
	g.keys = &watched[keys]{paths: slices.Concat(g.cfg.TokenFiles, g.cfg.ReaderTokenFiles), every: rereadEvery, parse: func(_ keys, files []content) keys {
		k := parseKeys(files, g.cfg.TokenFiles)
		if first {
			return k
		}
		for _, p := range k.problems {
			g.cfg.Log.Error().Str("problem", p).Msg("a token is not taken")
		}
		if len(k.hooks) == 0 {
			g.cfg.Log.Error().Strs("files", g.cfg.TokenFiles).Msg("no token is left: nobody may call the hooks")
		} else {
			g.cfg.Log.Info().Int("hooks", len(k.hooks)).Int("readers", len(k.readers)).Msg("tokens read again")
		}
		return k
	}}
	k := g.keys.now()
	if first = false; len(k.problems) > 0 {
		return errors.New("--token-file, --reader-token-file: " + strings.Join(k.problems, "; "))
	}
	if len(k.hooks) == 0 {
		return fmt.Errorf("--token-file: there is no token in %s", strings.Join(g.cfg.TokenFiles, ", "))
	}
	return nil
}

// Authenticates tells whether strangers are told from callers.
func (g *Guard) Authenticates() bool { return g.keys != nil || g.callers != nil }

// Encrypts tells whether there is TLS.
func (g *Guard) Encrypts() bool { return g.pair != nil }

// Wrap lets through to next whoever may call.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := g.judge(r)
		switch why {
		case "":
			next.ServeHTTP(w, r)
			return
		case onlyReads:
			g.refuse(w, r, why, http.StatusForbidden, "this token may not do that")
		case foreignName:
			g.refuse(w, r, why, http.StatusForbidden, "call this server by its address or as localhost")
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="vmgroup"`)
			g.refuse(w, r, why, http.StatusUnauthorized, "who calls must say who it is")
		}
	})
}

// judge gives why a call is refused; "" if it is not.
func (g *Guard) judge(r *http.Request) reason {
	if g.cfg.LocalNames && !localName(r.Host) {
		return foreignName
	}
	if g.callers != nil && !g.trusts(r.TLS) {
		return certificate
	}
	if g.keys == nil {
		return ""
	}
	token, some := bearer(r.Header)
	if !some {
		return noToken
	}
	k, presented := g.keys.now(), sha256.Sum256([]byte(token))
	mayCall, mayRead := among(k.hooks, presented), among(k.readers, presented)
	switch {
	case mayCall, mayRead && r.Method == http.MethodGet:
		return ""
	case mayRead:
		return onlyReads
	}
	return wrongToken
}

// bearer gives the token of the one Authorization header.
func bearer(h http.Header) (token string, some bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// goodbye is how long what a stranger still sends is thrown away, by net/http and up to 256 KiB. Without it the connection would
// be reset, and a caller that is still writing would see that, and not why it is refused.
const goodbye = 500 * time.Millisecond

// refuse answers with one sentence that tells nothing, and is done with the connection: what else would come on it, the body
// above all, is neither waited for nor looked at.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, why reason, code int, sentence string) {
	g.count(why, r.RemoteAddr)
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(sentence + "\n"))
	control := http.NewResponseController(w)
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(goodbye))
}

// count counts a refusal, and logs the first of many.
func (g *Guard) count(why reason, from string) {
	g.refused.WithLabelValues(string(why)).Inc()
	if n, say := g.quiet[why].say(time.Now()); say {
		g.cfg.Log.Warn().Str("reason", string(why)).Str("from", from).Int("times", n).Msg("refused")
	}
}
