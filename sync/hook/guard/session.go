package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Browser lets people in who look at the server with a browser, which cannot present a bearer token: a form takes a token, any of
// those that callers can present, and a cookie then stands for it. With mTLS a browser needs its certificate as well.
//
// The cookie opens nothing but GET of the pages that Covers names, whichever token was given. It contains no token, but the time when it ends,
// and a MAC of that with the token's digest as the key: so every replica of the server knows it, none keeps a record of it, and it is invalid
// as soon as the token is. It is HttpOnly and SameSite=Strict, and over TLS Secure and bound to this host.
type Browser struct {
	// Covers reports whether a path is a page's, Open whether anybody can GET it: what the form is displayed with.
	Covers, Open func(path string) bool
	// SignIn and SignOut are the paths that the forms are posted to.
	SignIn, SignOut string
	// Form answers with the form, with status 401. denied tells that the token that was given is refused.
	Form func(w http.ResponseWriter, r *http.Request, denied bool)
}

const (
	// sessionFor is how long a cookie is valid: a working day.
	sessionFor = 12 * time.Hour
	// formBytes bounds a form that is posted, and formTime how long it can take to arrive: it is read before anything is known of
	// its sender.
	formBytes = 3*longest + 4<<10
	formTime  = 5 * time.Second
	// cookieName is that of a cookie over TLS; a browser accepts this prefix only with Secure and for no other host.
	cookieName, cookieNamePlain = "__Host-vmgroup", "vmgroup"
)

// browse answers a request of a browser that is not signed in, or signs in or out, and reports whether it did. Certificate
// and host name were judged before.
func (g *Guard) browse(w http.ResponseWriter, r *http.Request, why reason) (done bool) {
	b := g.cfg.Browser
	if b == nil || g.keys == nil || why == foreignName || why == certificate {
		return false
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == b.SignIn:
		g.signIn(w, r)
	case r.Method == http.MethodPost && r.URL.Path == b.SignOut:
		g.signOut(w, r)
	case why == noToken && reads(r) && b.Covers(r.URL.Path) && r.Header.Get("Authorization") == "":
		g.ask(w, r, false)
	default:
		return false
	}
	return true
}

// opens reports whether a request needs no token: it is for what anybody can see, or has a valid cookie.
func (g *Guard) opens(r *http.Request) bool {
	b := g.cfg.Browser
	return b != nil && reads(r) && (b.Open(r.URL.Path) || b.Covers(r.URL.Path) && g.SignedIn(r))
}

// SignedIn reports whether a request has a valid cookie.
func (g *Guard) SignedIn(r *http.Request) bool {
	if g.keys == nil {
		return false
	}
	c, err := r.Cookie(cookieOf(r))
	if err != nil {
		return false
	}
	text, code, _ := strings.Cut(c.Value, ".")
	ends, err := strconv.ParseInt(text, 10, 64)
	presented, err2 := hex.DecodeString(code)
	if left := time.Until(time.Unix(ends, 0)); err != nil || err2 != nil || left <= 0 || left > sessionFor {
		return false
	}
	k, found := g.keys.now(), false
	for _, digests := range [][][sha256.Size]byte{k.hooks, k.readers} {
		for i := range digests {
			if hmac.Equal(presented, seal(digests[i], ends)) {
				found = true
			}
		}
	}
	return found
}

// seal is the MAC of a cookie that ends then.
func seal(digest [sha256.Size]byte, ends int64) []byte {
	mac := hmac.New(sha256.New, digest[:])
	mac.Write([]byte("vmgroup browser session until " + strconv.FormatInt(ends, 10)))
	return mac.Sum(nil)
}

func cookieOf(r *http.Request) string {
	if r.TLS != nil {
		return cookieName
	}
	return cookieNamePlain
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieOf(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// sameOrigin refuses forms of other sites: one could sign a browser out, or in with another token.
var sameOrigin = http.NewCrossOriginProtection()

func (g *Guard) signIn(w http.ResponseWriter, r *http.Request) {
	if !g.mayPost(w, r) {
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	digest, k := sha256.Sum256([]byte(token)), g.keys.now()
	hooks, readers := among(k.hooks, digest), among(k.readers, digest)
	if !hooks && !readers {
		g.count(wrongToken, r.RemoteAddr)
		g.ask(w, r, true)
		return
	}
	ends := time.Now().Add(sessionFor).Unix()
	http.SetCookie(w, cookie(r, strconv.FormatInt(ends, 10)+"."+hex.EncodeToString(seal(digest, ends)), int(sessionFor.Seconds())))
	g.lead(w, g.cfg.Browser.within(r.PostForm.Get("to")))
}

func (g *Guard) signOut(w http.ResponseWriter, r *http.Request) {
	if !g.mayPost(w, r) {
		return
	}
	http.SetCookie(w, cookie(r, "", -1))
	g.lead(w, "/")
}

// mayPost reads a form, or refuses it.
func (g *Guard) mayPost(w http.ResponseWriter, r *http.Request) bool {
	if sameOrigin.Check(r) != nil {
		g.refuse(w, r, crossSite, http.StatusForbidden, "this form is another site's")
		return false
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTime))
	r.Body = http.MaxBytesReader(w, r.Body, formBytes)
	if err := r.ParseForm(); err != nil {
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		g.refuse(w, r, noToken, code, "this is not the form of a browser")
		return false
	}
	return true
}

// lead sends a browser on with GET.
func (g *Guard) lead(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// within is where a browser goes that is signed in: a page of this server, never another site.
func (b *Browser) within(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(to, "\\\t\r\n") || strings.HasPrefix(to, "//") || !b.Covers(u.Path) || u.Path == b.SignIn {
		return "/"
	}
	return u.RequestURI()
}

// ask answers with the form, and closes the connection, as refuse does.
func (g *Guard) ask(w http.ResponseWriter, r *http.Request, denied bool) {
	w.Header().Set("Connection", "close")
	w.Header().Set("WWW-Authenticate", challenge)
	g.cfg.Browser.Form(w, r, denied)
	leave(w)
}
