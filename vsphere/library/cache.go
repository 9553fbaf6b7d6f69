// Package library keeps the items of vCenter's content libraries that spec.template names as library/item. An item is a VM template of the
// inventory, or an OVF that the server deploys as a VM template. Groups look items up in memory. One goroutine reads the items, one after the
// other; each deployment runs in a goroutine of its own.
package library

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
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
	items    map[string]*cachedName // by text
	named    map[types.UID]string   // the text that each group has
	previews map[string]previewed   // by text and the item that it meant before
}

// previewed is what was read for a preview. No group may ask for it.
type previewed struct {
	*cachedName
	at time.Time
}

// Source is the VM template that an item is, or that it was deployed as. Only a deployed one has a Fingerprint, OVF.Fingerprint.
type Source struct{ MoRef, Fingerprint string }

// previewsMost bounds the number of previews; each is used for soonest.
const previewsMost = 64

// cachedName is one text that groups ask for, and what it names.
type cachedName struct {
	known   bool               // whether vCenter ever said what it names
	all     []naming.Candidate // the items that it names, as last read
	fits    []int              // the indices of those that fit best
	fault   *plan.Fault        // why it names none, or why that is unknown
	sources map[string]*source // by the id of the item; of those that groups mean
	groups  int                // that have the text
	asked   time.Time          // when one last did
	read    time.Time          // when the last reading ended
	again   bool               // whether to read it before readEvery has passed
	logged  string             // the reason of the last error in the log
}

// source is the VM template of one item, as last read.
type source struct {
	sought bool        // whether a reading looked for the item among those of the name
	found  Source      // empty if it was never found
	unseen time.Time   // since when the inventory does not have the template of found; zero if it has it
	fault  *plan.Fault // why there is no template
	asked  time.Time   // when a group last asked for it
	logged string      // the reason of the last error in the log

	deploying bool           // whether a deployment of it runs
	failed    *vcfault.Error // the error of the last deployment
	tried     OVF            // the OVF of the last deployment
	ended     time.Time
	failures  int // deployments that failed since one succeeded
}

// New returns an empty cache. rest makes calls of the REST API, and changed is called after an answer changed.
func New(rest func(context.Context, func(context.Context, *session.RESTSession) error) error, ovfs Deployer, changed func(), log zerolog.Logger) *Cache {
	return &Cache{rest: rest, ovfs: ovfs, changed: changed, log: log, wake: make(chan struct{}, 1), items: map[string]*cachedName{}, named: map[types.UID]string{}, previews: map[string]previewed{}}
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

// Fill completes t, a template that the inventory does not have under the name text, or that a library's item with that name keeps from being meant, if text
// names an item of a content library. complete fills in a template of which only the moRef is known, and reports whether the inventory has it. means is what
// is to be recorded of the name. Fill makes no call. What the group named before is no longer read, unless other groups name it.
func (s *Cache) Fill(group types.UID, t *plan.Template, text string, complete func(*plan.Template) bool) (means []v1alpha1.NamedObject) {
	if !Is(text) {
		s.Leave(group)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	x := s.nameItem(group, text)
	x.asked = now
	for _, id := range idsOf(t.Meant) {
		s.ask(x, id, now)
	}
	item, means := x.find(t, text, complete)
	if item == "" {
		return means
	}
	of := s.ask(x, item, now)
	if of.fill(t, text, complete) {
		of.unseen = time.Time{}
		return means
	}
	if of.found.MoRef == "" {
		return means
	}
	if of.unseen.IsZero() { // the template was removed, perhaps for a newer version, or the inventory does not have it yet
		of.unseen = now
	}
	s.readAgain(x)
	if now.Sub(of.unseen) > 2*readEvery && x.read.After(of.unseen) {
		t.Fault = &vcfault.ForOperator(vcfault.ReasonLibraryItemUnusable,
			"The content library's item %q is the VM template %s, which vCenter does not show its user: grant the user System.Read and VirtualMachine.Provisioning.DeployTemplate on that template.", text, of.found.MoRef).Fault
	}
	return means
}

// ask notes that a group means an item by a text, or meant it before. The caller holds mu.
func (s *Cache) ask(x *cachedName, item string, now time.Time) *source {
	of := x.sources[item]
	if of == nil {
		of = &source{}
		x.sources[item] = of
		s.readAgain(x)
	}
	of.asked = now
	return of
}

// readAgain has a text read soon. The caller holds mu.
func (s *Cache) readAgain(x *cachedName) {
	if !x.again {
		x.again = true
		s.wakeUp()
	}
}

// find finds out which of the objects that have the name text is the template of a group, and what is to be recorded of that. item is the id of that item.
// Otherwise, find completes t: with a template of the inventory, or with the fault.
func (x *cachedName) find(t *plan.Template, text string, complete func(*plan.Template) bool) (item string, means []v1alpha1.NamedObject) {
	unsought := func(id string) bool { return x.sources[id] == nil || !x.sources[id].sought }
	if !x.known || slices.ContainsFunc(idsOf(t.Meant), unsought) {
		if t.Fault = x.fault; t.Fault == nil {
			t.Fault = reading(text)
		}
		return "", nil
	}
	all, fits := x.all, x.fits
	if len(t.Namesakes) > 0 {
		all, fits = slices.Clone(all), slices.Clone(fits)
	}
	for _, o := range t.Namesakes {
		fits = append(fits, len(all))
		all = append(all, naming.Candidate{Ref: naming.RefOf(o.Object), Path: o.Path})
	}
	i, err := which(t.Meant, text, all, fits)
	switch {
	case err != nil && len(all) == 0:
		t.Fault = x.fault
		return "", nil
	case err != nil:
		t.Fault = &err.Fault
		return "", nil
	}
	if o, recorded := naming.Meaning(field.Flag, "", text, all, fits, i); recorded && (t.Meant == nil || !t.Meant.Equal(&o)) {
		means = []v1alpha1.NamedObject{o}
	}
	if all[i].Ref.Type == ItemType {
		return all[i].Ref.Value, means
	}
	found := plan.Template{MoRef: all[i].Ref.Value, Datacenter: t.Datacenter}
	if *t = found; !complete(t) {
		t.Fault = reading(text)
	}
	return "", means
}

// which returns the index of the object that a name means, of all that have it. If the name meant a template of the inventory, it means no item, until it is
// set: the server looked for no items while it did, so one may have waited for that template to be renamed, or to be a VM for its patches.
func which(before *v1alpha1.NamedObject, text string, all []naming.Candidate, fits []int) (int, *vcfault.Error) {
	outside := before != nil && naming.RefOf(before.Object).Type != ItemType
	if !outside {
		if i := naming.Which(before, all, fits); i >= 0 {
			return i, nil
		}
	}
	if before != nil && len(fits) == 1 {
		return 0, field.Ignored(text, all[fits[0]])
	}
	return 0, field.Refuse(text, all, fits)
}

// nameItem notes which item a group names. The caller holds mu.
func (s *Cache) nameItem(group types.UID, text string) *cachedName {
	if s.named[group] != text {
		s.leave(group)
		x := s.items[text]
		if x == nil {
			x = newName()
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
	x, keep := s.items[text], false
	for _, of := range x.sources {
		keep = keep || of.deploying || of.failed != nil
	}
	if x.groups--; x.groups == 0 && !keep {
		delete(s.items, text)
	}
}

func newName() *cachedName { return &cachedName{sources: map[string]*source{}} }

// fill completes t with the template of an item, or with the reason that there is none, and reports whether the inventory has it.
func (of *source) fill(t *plan.Template, text string, complete func(*plan.Template) bool) bool {
	if of.found.MoRef == "" {
		if t.Fault = of.fault; t.Fault == nil {
			t.Fault = reading(text)
		}
		return false
	}
	x := plan.Template{MoRef: of.found.MoRef, Datacenter: t.Datacenter}
	if !complete(&x) {
		t.Fault = reading(text)
		return false
	}
	*t = x
	t.Fingerprint = cmp.Or(of.found.Fingerprint, x.Fingerprint)
	return true
}

// looked is what vCenter says about an item: its template, or an OVF that was not deployed yet.
type looked struct {
	found   Source
	pending *OVF
	err     error
}

// Resolve asks vCenter for the item that text means, which meant what before says: found is its template, or pending is an OVF that was not deployed yet.
// With pending, the error says why a deployment would fail, or that one is needed.
func (s *Cache) Resolve(ctx context.Context, text string, before *v1alpha1.NamedObject) (found Source, pending *OVF, err error) {
	items, of, err := s.look(ctx, text, idsOf(before))
	if err != nil {
		return Source{}, nil, err
	}
	all, fits := candidatesOf(items)
	i, refused := which(before, text, all, fits)
	if refused != nil {
		return Source{}, nil, refused
	}
	l := s.examined(ctx, of[items[i].ID])
	return l.found, l.pending, l.err
}

// examined adds why a deployment would fail, or that one is needed, to an OVF that was not deployed yet.
func (s *Cache) examined(ctx context.Context, l looked) looked {
	if l.pending != nil {
		if l.err = s.ovfs.Examine(ctx, l.pending); l.err == nil {
			l.err = awaiting(l.pending)
		}
	}
	return l
}

// idsOf returns the id of the item that a name meant, if it meant one.
func idsOf(before *v1alpha1.NamedObject) (ids []string) {
	if before != nil {
		if ref := naming.RefOf(before.Object); ref.Type == ItemType {
			ids = append(ids, ref.Value)
		}
	}
	return ids
}

// look finds the items that text names, and looks at those of meant, and at the one that a group means whose status doesn't say what it means.
func (s *Cache) look(ctx context.Context, text string, meant []string) (items []namedItem, of map[string]looked, err error) {
	if items, err = s.find(ctx, text, meant); err != nil {
		return nil, nil, err
	}
	_, fits := candidatesOf(items)
	of = map[string]looked{}
	for i, item := range items {
		if slices.Contains(meant, item.ID) || len(fits) == 1 && fits[0] == i {
			of[item.ID] = s.lookAt(ctx, item)
		}
	}
	return items, of, nil
}

// lookAt finds the template of an item.
func (s *Cache) lookAt(ctx context.Context, item namedItem) looked {
	moRef, ovf, err := s.sourceOf(ctx, item)
	if err != nil || ovf == nil {
		return looked{found: Source{MoRef: moRef}, err: err}
	}
	moRef, err = s.ovfs.Deployed(ctx, ovf)
	if err != nil || moRef != "" {
		return looked{found: Source{moRef, ovf.Fingerprint()}, err: err}
	}
	return looked{pending: ovf}
}

// awaiting is the fault for an item that was not deployed yet.
func awaiting(ovf *OVF) *vcfault.Error {
	return vcfault.ForRetry(vcfault.ReasonLibraryReading, "The content library's item %q is deployed as the template %s, once for all groups; that can take minutes.", ovf.Name, ovf.TemplateName())
}

// ReadForPreview reads an item that a preview names, which meant what before says, unless it is known. No group is notified of the result, and the item is
// not read again.
func (s *Cache) ReadForPreview(ctx context.Context, text string, before *v1alpha1.NamedObject) {
	if !Is(text) {
		return
	}
	key := previewKey(text, before)
	s.mu.Lock()
	known, seen := s.items[text], s.previews[key]
	s.mu.Unlock()
	if known != nil && !known.read.IsZero() || time.Since(seen.at) < soonest {
		return
	}
	seen = previewed{newName(), time.Now()}
	items, of, err := s.look(ctx, text, idsOf(before))
	seen.take(items, vcfault.Classify("", err))
	for id, l := range of {
		l = s.examined(ctx, l)
		seen.sources[id] = &source{sought: true}
		seen.sources[id].take(l, vcfault.Classify("", l.err))
	}
	for _, id := range idsOf(before) {
		if seen.sources[id] == nil {
			seen.sources[id] = &source{sought: true}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.previews, func(_ string, g previewed) bool { return seen.at.Sub(g.at) >= soonest })
	if len(s.previews) < previewsMost {
		s.previews[key] = seen
	}
}

func previewKey(text string, before *v1alpha1.NamedObject) string {
	if before == nil {
		return text
	}
	return text + " " + before.Object
}

// Peek is Fill for a preview: it does not make the cache read the item.
func (s *Cache) Peek(t *plan.Template, text string, complete func(*plan.Template) bool) (means []v1alpha1.NamedObject) {
	if !Is(text) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.items[text]
	if x == nil || x.read.IsZero() {
		x = s.previews[previewKey(text, t.Meant)].cachedName
	}
	if x == nil {
		t.Fault = reading(text)
		return nil
	}
	item, means := x.find(t, text, complete)
	if item != "" {
		of := x.sources[item]
		if of == nil {
			of = &source{}
		}
		of.fill(t, text, complete)
	}
	return means
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

// readItem reads what one text names. If a group means an OVF that was not deployed yet, readItem begins to deploy it.
func (s *Cache) readItem(ctx context.Context, text string) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	meant, deploying := s.meant(text)
	items, of, err := s.look(bounded, text, meant)
	for n := range items {
		id := items[n].ID
		l, is := of[id]
		if is && vcfault.MissingObject(l.err).Type == "Folder" { // the root folder was removed, and the templates with it
			if l.err = s.ovfs.CreateRoot(bounded); l.err == nil {
				l = s.lookAt(bounded, items[n])
			}
		}
		if is && l.pending != nil && !slices.Contains(deploying, id) {
			l.err = s.ovfs.Examine(bounded, l.pending)
		}
		if is {
			of[id] = l
		}
	}
	s.mu.Lock()
	x := s.items[text]
	if x == nil {
		s.mu.Unlock()
		return
	}
	news := s.takeReading(ctx, x, text, meant, items, of, vcfault.Classify("", err))
	s.mu.Unlock()
	if news {
		s.changed()
	}
}

// meant returns the ids of the items that groups mean by a text, and of those that are being deployed. It forgets those that no group has meant for long.
func (s *Cache) meant(text string) (ids, deploying []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.items[text]
	if x == nil {
		return nil, nil
	}
	for id, of := range x.sources {
		switch {
		case of.deploying:
			deploying = append(deploying, id)
		case time.Since(of.asked) > forgottenAfter && of.failed == nil:
			delete(x.sources, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, deploying
}

// takeReading takes over what was read, begins deployments, and reports whether there is something new for groups. The caller holds mu.
func (s *Cache) takeReading(ctx context.Context, x *cachedName, text string, meant []string, items []namedItem, of map[string]looked, fault *vcfault.Error) (news bool) {
	x.read, x.again = time.Now(), false
	news = x.take(items, fault)
	s.logFault(&x.logged, text, fault)
	for id := range of {
		if x.sources[id] == nil {
			x.sources[id] = &source{asked: x.read}
		}
	}
	for id, src := range x.sources {
		l, is := of[id]
		failed := fault
		switch {
		case is:
			failed = vcfault.Classify("", l.err)
		case fault == nil || final(fault): // the item doesn't have the name
			if slices.Contains(meant, id) && !src.sought {
				src.sought, news = true, true
			}
			continue
		}
		if is && !src.sought {
			src.sought, news = true, true
		}
		if l.pending != nil && failed == nil {
			failed = s.deploy(ctx, x, src, l.pending)
		}
		was := src.found.MoRef
		if src.take(l, failed) {
			news = true
		}
		if is {
			s.logFault(&src.logged, text, failed)
		}
		if now := src.found.MoRef; was != now {
			s.log.Info().Str("template", text).Str("was", was).Str("is", now).Msg("content library item has another VM template")
		}
	}
	return news
}

// logFault logs a fault whose reason isn't that of the last one.
func (s *Cache) logFault(logged *string, text string, fault *vcfault.Error) {
	was := *logged
	*logged = ""
	if fault == nil {
		return
	}
	if *logged = fault.Reason; *logged != was {
		s.log.Warn().Err(fault).Str("template", text).Str("reason", fault.Reason).Msg("content library item is unusable")
	}
}

// take takes over what a text names, or the fault of the reading, and reports whether groups see something new. What it names stays as it was while vCenter
// can't be read.
func (x *cachedName) take(items []namedItem, fault *vcfault.Error) (news bool) {
	if fault != nil && !final(fault) {
		if x.known {
			return false
		}
		news = !same(x.fault, &fault.Fault)
		x.fault = &fault.Fault
		return news
	}
	was := *x
	x.known, x.fault = true, nil
	if x.all, x.fits = candidatesOf(items); fault != nil {
		x.fault = &fault.Fault
	}
	return !was.known || !slices.Equal(was.all, x.all) || !slices.Equal(was.fits, x.fits) || !same(was.fault, x.fault)
}

// take takes over what vCenter says about an item, and reports whether groups see something new. An item keeps its template while vCenter can't be read.
func (of *source) take(l looked, fault *vcfault.Error) (news bool) {
	was := *of
	switch {
	case fault == nil:
		if of.fault = nil; of.found != l.found {
			of.found, of.unseen = l.found, time.Time{}
		}
	case l.pending == nil && final(fault), !of.unseen.IsZero() && (l.pending != nil || fault.NeedsOperator):
		of.found, of.fault = Source{}, &fault.Fault
	case of.found.MoRef == "":
		of.fault = &fault.Fault
	}
	return was.found != of.found || !same(was.fault, of.fault)
}

// deploy begins to deploy an OVF, unless a deployment of it runs or has just failed. It returns why there is no template yet. The caller holds
// mu.
func (s *Cache) deploy(ctx context.Context, of *cachedName, x *source, ovf *OVF) *vcfault.Error {
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
			x.deploying, x.failed, x.ended = false, failed, time.Now()
			of.again = of.again || failed == nil || failed.NeedsOperator
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
func (x *source) pause() time.Duration {
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
