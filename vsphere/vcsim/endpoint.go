package vcsim

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
)

// exchange is one HTTP request, or one direct call, as the code behind the simulator's dispatch sees it.
type exchange struct {
	gone <-chan struct{} // nobody waits for the answer any more
	door *sync.RWMutex   // held for reading while the simulator looks the session up
	call *directCall     // nil: it is a request
}

type exchangeKey struct{}

// exchangeOf returns the request that ctx's call came in.
func exchangeOf(ctx *simulator.Context) *exchange {
	if ctx.Context != nil {
		if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
			return e
		}
	}
	return &exchange{}
}

// carryOut has the simulator answer r, and reports whether it did: not, if this vCenter is closed.
//
// The simulator shows an overriding method neither the request nor its context, which REST sees. What it does show is
// the session's cookie, so the request's number travels there, and sessionCookie takes it off again.
func (v *VCenter) carryOut(w http.ResponseWriter, r *http.Request) bool {
	if !v.world.enter() {
		return false
	}
	defer v.world.leave()
	e := &exchange{gone: r.Context().Done()}
	id := strconv.Itoa(v.world.nextID())
	v.mu.Lock()
	v.exchanges[id] = e
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.exchanges, id)
		v.mu.Unlock()
	}()

	var session string
	cookies := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range cookies {
		if c.Name != soap.SessionCookieName {
			r.AddCookie(c) // REST has one of its own
		} else if session == "" {
			session = c.Value
		}
	}
	r.AddCookie(&http.Cookie{Name: soap.SessionCookieName, Value: session + "." + id})
	v.world.service.ServeMux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
	return true
}

// sessionCookie is the registry's hook that finds out a call's session.
func (v *VCenter) sessionCookie(ctx *simulator.Context) string {
	cookie := simulator.HTTPCookie(ctx)
	dot := strings.LastIndexByte(cookie, '.')
	if dot < 0 {
		return cookie
	}
	v.mu.Lock()
	e := v.exchanges[cookie[dot+1:]]
	v.mu.Unlock()
	// Looking a session up stores it again. dispatch opens the door once that is over, lest a session
	// that is dropped meanwhile come back.
	v.door.RLock()
	e.door = &v.door
	// v.world.ctx rather than the request's: tasks and the watch for idle sessions outlive the request.
	ctx.Context = context.WithValue(v.world.ctx, exchangeKey{}, e)
	return cookie[:dot]
}
