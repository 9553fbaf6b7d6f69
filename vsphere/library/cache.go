// Package library keeps the items of vCenter's content libraries that spec.template names as library/item. An item is a VM template of the
// inventory, or an OVF that the server deploys as a VM template. Groups look items up in memory. One goroutine reads the items, one after the
// other; each deployment runs in a goroutine of its own.
package library

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/retry"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

const (
	// readEvery is the time between two readings of an item: libraries do not report changes.
	readEvery = time.Minute
	// soonest is the minimum time between two readings of an item.
	soonest = 10 * time.Second
	// readTimeout bounds the reading of one item.
	readTimeout = 30 * time.Second
	// forgottenAfter is the time after which an item is forgotten that no group asks for, although one named it last.
	forgottenAfter = 10 * time.Minute
	// deployTimeout bounds a deployment, in which vCenter copies disks from the library.
	deployTimeout = 2 * time.Hour
	// deployAgain is the time after which a deployment is tried again that failed for a reason that an operator must correct.
	deployAgain = 2 * time.Minute
)

// failedDeployments are the pauses after deployments that failed again and again.
var failedDeployments = retry.Backoff{First: deployAgain, Most: 10 * time.Minute}

// Deployer deploys OVFs as templates.
type Deployer interface {
	// Deployed returns the moRef of the template that an OVF was deployed as; empty if there is none yet.
	Deployed(ctx context.Context, ovf *OVF) (moRef string, err error)
	// Examine returns the error with which a deployment would fail. It changes nothing.
	Examine(ctx context.Context, ovf *OVF) error
	// Deploy deploys an OVF. While another server deploys it, Deploy returns a transient error.
	Deploy(ctx context.Context, ovf *OVF) error
	// CreateRoot creates the folder of these templates, which is the server's root folder, if it is missing.
	CreateRoot(ctx context.Context) error
}

// Cache has the items that groups ask for, as last read. It keeps an answer while vCenter can't be read.
type Cache struct {
	rest    func(context.Context, func(context.Context, *session.RESTSession) error) error
	ovfs    Deployer
	changed func()
	log     zerolog.Logger
	wake    chan struct{}  // an item is due; its capacity is 1
	running sync.WaitGroup // the deployments

	mu       sync.Mutex
	items    map[string]*cachedItem // by text
	named    map[types.UID]string   // the item that each group names
	previews map[string]previewed   // by text
}

// previewed is an item that was read for a preview. No group may ask for it.
type previewed struct {
	found Source
	fault *plan.Fault
	at    time.Time
}

// Source is the VM template that an item is, or that it was deployed as. Only a deployed one has a Fingerprint, OVF.Fingerprint.
type Source struct{ MoRef, Fingerprint string }

// previewsMost bounds the number of previews; each is used for soonest.
const previewsMost = 64

// cachedItem is one item that groups ask for.
type cachedItem struct {
	found  Source      // empty if it was never found
	unseen time.Time   // since when the inventory does not have the template of found; zero if it has it
	fault  *plan.Fault // why there is no template
	groups int         // that name it
	asked  time.Time   // when one last did
	read   time.Time   // when the last reading ended
	again  bool        // whether to read it before readEvery has passed
	logged string      // the reason of the last error in the log

	deploying bool           // whether a deployment of it runs
	failed    *vcfault.Error // the error of the last deployment
	tried     OVF            // the OVF of the last deployment
	ended     time.Time
	failures  int // deployments that failed since one succeeded
}

// New returns an empty cache. rest makes calls of the REST API, and changed is called after an answer changed.
func New(rest func(context.Context, func(context.Context, *session.RESTSession) error) error, ovfs Deployer, changed func(), log zerolog.Logger) *Cache {
	return &Cache{rest: rest, ovfs: ovfs, changed: changed, log: log, wake: make(chan struct{}, 1), items: map[string]*cachedItem{}, named: map[types.UID]string{}, previews: map[string]previewed{}}
}

// Cut cuts "library/item"; false if text has another form, such as that of a longer path. A '/' within a name is written %2f.
func Cut(text string) (library, item string, is bool) {
	library, item, is = strings.Cut(text, "/")
	if !is || library == "" || item == "" || strings.Contains(item, "/") {
		return "", "", false
	}
	return naming.Unescape(library), naming.Unescape(item), true
}

// Is reports whether text can name an item of a content library.
func Is(text string) bool {
	_, _, is := Cut(text)
	return is
}

// Fill completes t, a template that the inventory does not have under the name text, if text names an item of a content library.
// complete fills in a template of which only the moRef is known, and reports whether the inventory has it. Fill makes no call. The item that the group
// named before is no longer read, unless other groups name it.
func (s *Cache) Fill(group types.UID, t *plan.Template, text string, complete func(*plan.Template) bool) {
	if !Is(text) {
		s.Leave(group)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	x := s.nameItem(group, text)
	x.asked = now
	if x.found.MoRef == "" {
		t.Fault = x.fault
		if t.Fault == nil {
			t.Fault = reading(text)
		}
		return
	}
	if fill(t, x.found, complete) {
		x.unseen = time.Time{}
		return
	}
	if x.unseen.IsZero() { // the template was removed, perhaps for a newer version, or the inventory does not have it yet
		x.unseen = now
	}
	if !x.again {
		x.again = true
		s.wakeUp()
	}
	t.Fault = reading(text)
	if now.Sub(x.unseen) > 2*readEvery && x.read.After(x.unseen) {
		t.Fault = &vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
			"The content library's item %q is the VM template %s, which vCenter does not show its user: grant the user System.Read and VirtualMachine.Provisioning.DeployTemplate on that template.", text, x.found.MoRef).Fault
	}
}

// nameItem notes which item a group names. The caller holds mu.
func (s *Cache) nameItem(group types.UID, text string) *cachedItem {
	if s.named[group] != text {
		s.leave(group)
		x := s.items[text]
		if x == nil {
			x = &cachedItem{}
			s.items[text] = x
		}
		x.groups++
		s.named[group] = text
		s.wakeUp()
	}
	return s.items[text]
}

// Leave notes that a group names no item.
func (s *Cache) Leave(group types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(group)
}

// leave forgets the item that only this group names, unless the pause after its deployment must be kept. The caller holds mu.
func (s *Cache) leave(group types.UID) {
	text, names := s.named[group]
	if !names {
		return
	}
	delete(s.named, group)
	x := s.items[text]
	if x.groups--; x.groups == 0 && !x.deploying && x.failed == nil {
		delete(s.items, text)
	}
}

// fill completes t with the template that was found, and reports whether the inventory has it.
func fill(t *plan.Template, found Source, complete func(*plan.Template) bool) bool {
	x := plan.Template{MoRef: found.MoRef, Datacenter: t.Datacenter}
	if !complete(&x) {
		return false
	}
	*t = x
	t.Fingerprint = cmp.Or(found.Fingerprint, x.Fingerprint)
	return true
}

// Resolve asks vCenter for an item: found is its template, or pending is an OVF that was not deployed yet. With pending, the error says why a
// deployment would fail, or that one is needed.
func (s *Cache) Resolve(ctx context.Context, text string) (found Source, pending *OVF, err error) {
	if found, pending, err = s.look(ctx, text); pending != nil {
		if err = s.ovfs.Examine(ctx, pending); err == nil {
			err = awaiting(pending)
		}
	}
	return found, pending, err
}

// look is Resolve without an error for an OVF that was not deployed yet.
func (s *Cache) look(ctx context.Context, text string) (found Source, pending *OVF, err error) {
	moRef, ovf, err := s.find(ctx, text)
	if err != nil || ovf == nil {
		return Source{MoRef: moRef}, nil, err
	}
	moRef, err = s.ovfs.Deployed(ctx, ovf)
	if err != nil || moRef != "" {
		return Source{moRef, ovf.Fingerprint()}, nil, err
	}
	return Source{}, ovf, nil
}

// awaiting is the fault for an item that was not deployed yet.
func awaiting(ovf *OVF) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonLibraryReading, "The content library's item %q is deployed as the template %s, once for all groups; that can take minutes.", ovf.Name, ovf.TemplateName())
}

// ReadForPreview reads an item that a preview names, unless it is known. No group is notified of the result, and the item is not read again.
func (s *Cache) ReadForPreview(ctx context.Context, text string) {
	if !Is(text) {
		return
	}
	s.mu.Lock()
	x, seen := s.items[text], s.previews[text]
	s.mu.Unlock()
	if x != nil && !x.read.IsZero() || time.Since(seen.at) < soonest {
		return
	}
	found, _, err := s.Resolve(ctx, text)
	seen = previewed{found: found, at: time.Now()}
	if err != nil {
		seen.fault = &vcfault.Classify("", err).Fault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.previews, func(_ string, g previewed) bool { return seen.at.Sub(g.at) >= soonest })
	if len(s.previews) < previewsMost {
		s.previews[text] = seen
	}
}

// Peek is Fill for a preview: it does not make the cache read the item.
func (s *Cache) Peek(t *plan.Template, text string, complete func(*plan.Template) bool) {
	if !Is(text) {
		return
	}
	s.mu.Lock()
	seen := s.previews[text]
	if x := s.items[text]; x != nil && !x.read.IsZero() {
		seen = previewed{found: x.found, fault: x.fault}
	}
	s.mu.Unlock()
	if seen.found.MoRef != "" && fill(t, seen.found, complete) {
		return
	}
	if t.Fault = seen.fault; t.Fault == nil {
		t.Fault = reading(text)
	}
}

// reading is the fault for an item that is being read.
func reading(text string) *plan.Fault {
	return &vcfault.ForRetry(vcfault.ReasonLibraryReading, "The template %q is being looked for in the content libraries.", text).Fault
}

// wakeUp makes Run look for items that are due.
func (s *Cache) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run reads items when they are due, until ctx ends.
func (s *Cache) Run(ctx context.Context) {
	defer s.running.Wait()
	for {
		text, wait := s.next(time.Now())
		if text != "" {
			s.readItem(ctx, text)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-due:
		}
	}
}

// next returns the item that became due first. If none is due, it returns the time until the next one is; 0 if there are no items. It forgets
// items that no group asks for.
func (s *Cache) next(now time.Time) (text string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, x := range s.items {
		if now.Sub(x.asked) > forgottenAfter {
			delete(s.items, of)
			maps.DeleteFunc(s.named, func(_ types.UID, text string) bool { return text == of })
			continue
		}
		if x.groups == 0 {
			continue
		}
		left := time.Until(x.read.Add(readEvery))
		if x.again {
			left = time.Until(x.read.Add(soonest))
		}
		if wait == 0 && text == "" || left < wait {
			text, wait = of, left
		}
	}
	if wait > 0 {
		text = ""
	}
	return text, wait
}

// readItem reads one item. If it is an OVF that was not deployed yet, readItem begins to deploy it.
func (s *Cache) readItem(ctx context.Context, text string) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s.mu.Lock()
	deploying := s.items[text] != nil && s.items[text].deploying
	s.mu.Unlock()
	found, pending, err := s.look(bounded, text)
	if vcfault.MissingObject(err).Type == "Folder" { // the root folder was removed, and the templates with it
		if err = s.ovfs.CreateRoot(bounded); err == nil {
			found, pending, err = s.look(bounded, text)
		}
	}
	if pending != nil && !deploying {
		err = s.ovfs.Examine(bounded, pending)
	}
	fault := vcfault.Classify("", err)
	s.mu.Lock()
	x := s.items[text]
	if x == nil {
		s.mu.Unlock()
		return
	}
	x.read, x.again = time.Now(), false
	if pending != nil && fault == nil {
		fault = s.deploy(ctx, x, pending)
	}
	was := *x
	switch {
	case fault == nil:
		if x.fault = nil; x.found != found {
			x.found, x.unseen = found, time.Time{}
		}
	case pending == nil && final(fault), !x.unseen.IsZero() && (pending != nil || fault.NeedsOperator):
		x.found, x.fault = Source{}, &fault.Fault
	case x.found.MoRef == "":
		x.fault = &fault.Fault
	}
	x.logged = ""
	if fault != nil {
		x.logged = fault.Reason
	}
	news, grumble := was.found != x.found || !same(was.fault, x.fault), x.logged != "" && x.logged != was.logged
	now := x.found.MoRef
	s.mu.Unlock()
	if grumble {
		s.log.Warn().Err(fault).Str("template", text).Str("reason", fault.Reason).Msg("content library item is unusable")
	}
	if news {
		if was.found.MoRef != now {
			s.log.Info().Str("template", text).Str("was", was.found.MoRef).Str("is", now).Msg("content library item has another VM template")
		}
		s.changed()
	}
}

// deploy begins to deploy an OVF, unless a deployment of it runs or has just failed. It returns why there is no template yet. The caller holds
// mu.
func (s *Cache) deploy(ctx context.Context, x *cachedItem, ovf *OVF) *vcfault.Error {
	failed := x.failed
	if x.tried != *ovf {
		failed, x.failures = nil, 0
	}
	if !x.deploying && failed != nil && time.Since(x.ended) < x.pause() {
		return failed
	}
	if !x.deploying {
		x.deploying, x.tried = true, *ovf
		s.running.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, deployTimeout)
			defer cancel()
			failed := vcfault.Classify("", s.ovfs.Deploy(bounded, ovf))
			s.mu.Lock()
			defer s.mu.Unlock()
			x.deploying, x.failed, x.ended, x.again = false, failed, time.Now(), failed == nil || failed.NeedsOperator
			if x.failures++; failed == nil {
				x.failures = 0
			}
			s.wakeUp()
		})
	}
	if failed != nil { // also while it is tried again: what went wrong is nearer to the truth than that all is well
		return failed
	}
	return awaiting(ovf)
}

// pause is how long to wait after a deployment that failed. vCenter may have copied disks before that, so what fails again and again is tried
// seldom. A reason that an operator must correct stays until then; LibraryReading says that vCenter or another process works at it.
func (x *cachedItem) pause() time.Duration {
	switch {
	case x.failed.NeedsOperator:
		return deployAgain
	case x.failed.Reason == vcfault.ReasonLibraryReading:
		return 0
	}
	return failedDeployments.After(x.failures)
}

// final reports whether a fault is about the item itself, and not about vCenter's failure to answer.
func final(f *vcfault.Error) bool {
	return f.Reason == vcfault.ReasonTemplateNotFound || f.Reason == vcfault.ReasonTemplateAmbiguous || f.Reason == vcfault.ReasonLibraryItemUnusable
}

func same(a, b *plan.Fault) bool { return a == b || a != nil && b != nil && *a == *b }
