package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// oldest is the first version of Metacontroller that suits (docs/install.md).
var oldest = [3]int{4, 17, 2}

const (
	controllersCRD = "compositecontrollers.metacontroller.k8s.io"
	// callers selects Metacontroller's pods: those of its manifests, of its chart, and of a chart that brings it along.
	callers = "app.kubernetes.io/name in (metacontroller,metacontroller-helm)"
)

// metacontroller checks that Metacontroller runs, in a version that suits, with the rights that VmGroup needs.
func (x *examination) metacontroller() {
	const exists = "Metacontroller's CRD is established"
	crd, found, err := one[definition](x.cluster, "crd", controllersCRD)
	switch {
	case err != nil:
		x.unseen(exists, err)
	case !found:
		x.fail(exists, "there is no CustomResourceDefinition "+controllersCRD, "Install Metacontroller (docs/install.md#before-you-begin)")
	case !crd.established():
		x.fail(exists, crd.why(), "Apply Metacontroller's CRDs again")
	default:
		x.ok(exists)
	}

	const runs = "Metacontroller runs"
	pods, err := all[pod](x.cluster, "pods", "--all-namespaces", "--selector", callers)
	if err != nil { // the right to list pods in the namespace that the documents name may suffice
		pods, err = all[pod](x.cluster, "pods", "--namespace", "metacontroller", "--selector", callers)
	}
	if err != nil {
		x.unseen(runs, err)
		return
	}
	if len(pods) == 0 {
		x.fail(runs, "no pod has a label "+callers, "Install Metacontroller (docs/install.md#before-you-begin), or scale it to 1: no hook is called, so nothing happens to any group")
		return
	}
	x.caller = &pods[0]
	if i := slices.IndexFunc(pods, func(p pod) bool { return p.ready() }); i >= 0 {
		x.caller = &pods[i]
	}
	name := x.caller.Metadata.Namespace + "/" + x.caller.Metadata.Name
	if !x.caller.ready() {
		x.fail(runs, name+" isn't ready: "+x.caller.trouble(), "See kubectl -n "+x.caller.Metadata.Namespace+" describe pod "+x.caller.Metadata.Name+": until it is ready, no hook is called")
	} else {
		x.ok("%s (%s)", runs, name)
	}
	x.exits("Metacontroller", x.caller)
	x.versionOf(x.caller)
	x.rights(x.caller)
}

// exits warns of a container that ended within the last hour.
func (x *examination) exits(what string, p *pod) {
	check := what + " has not ended within the last hour"
	last, restarts := p.lastExit()
	if last == nil || x.Now.Sub(last.FinishedAt.Time) > time.Hour {
		x.ok("%s", check)
		return
	}
	todo := "See the end of its log: kubectl -n " + p.Metadata.Namespace + " logs --previous " + p.Metadata.Name
	if last.Reason == "OOMKilled" {
		todo = "Raise its memory limit (docs/install.md#settings-for-each-size)"
	}
	x.warn(check, fmt.Sprintf("restarted %d times, last: %s", restarts, last), todo)
}

var versionTag = regexp.MustCompile(`:v?(\d+)\.(\d+)\.(\d+)`)

func (x *examination) versionOf(p *pod) {
	check := fmt.Sprintf("Metacontroller is %d.%d.%d or newer", oldest[0], oldest[1], oldest[2])
	for _, c := range p.Spec.Containers {
		match := versionTag.FindStringSubmatch(c.Image)
		if match == nil || !strings.Contains(c.Image, "metacontroller") {
			continue
		}
		var is [3]int
		for i := range is {
			is[i], _ = strconv.Atoi(match[i+1])
		}
		if slices.Compare(is[:], oldest[:]) < 0 {
			x.fail(check, "its image is "+c.Image, "Upgrade Metacontroller: older ones can't present a token to the hooks, or don't keep to the times for which they ask")
		} else {
			x.ok("%s (%s)", check, strings.TrimPrefix(match[0], ":"))
		}
		return
	}
	var images []string
	for _, c := range p.Spec.Containers {
		images = append(images, c.Image)
	}
	x.unseen(check, fmt.Errorf("the image's name doesn't say: %s", list(images)))
}

// access is a SubjectAccessReview, which asks the API server what a user is allowed to do.
type access struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		User               string            `json:"user"`
		ResourceAttributes map[string]string `json:"resourceAttributes"`
	} `json:"spec"`
	Status *struct{ Allowed bool } `json:"status,omitempty"`
}

// needs are the rights of Metacontroller without which it calls no hook, or an answer has no effect.
var needs = []struct{ group, resource, verb string }{
	{group, "vmgroups", "watch"}, {group, "vmgroups", "update"}, {group, "vmgroups/status", "update"},
	{"", "configmaps", "watch"}, {"", "configmaps", "create"}, {"", "services", "watch"}, {"", "services", "create"},
	{"discovery.k8s.io", "endpointslices", "watch"}, {"discovery.k8s.io", "endpointslices", "create"},
	{"", "secrets", "watch"}, {"", "events", "create"}, {"metacontroller.k8s.io", "controllerrevisions", "watch"},
}

// rights checks what Metacontroller is allowed to do, if the user can ask for that.
func (x *examination) rights(p *pod) {
	const check = "Metacontroller has the rights that VmGroup needs"
	account := p.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	reviews := struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Items      []access `json:"items"`
	}{APIVersion: "v1", Kind: "List"}
	for _, n := range needs {
		a := access{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview", Metadata: map[string]any{}}
		a.Spec.User = "system:serviceaccount:" + p.Metadata.Namespace + ":" + account
		resource, sub, _ := strings.Cut(n.resource, "/")
		a.Spec.ResourceAttributes = map[string]string{"group": n.group, "resource": resource, "subresource": sub, "verb": n.verb}
		reviews.Items = append(reviews.Items, a)
	}
	question, _ := json.Marshal(reviews) // cannot fail: texts
	text, err := x.kubectl(x.ctx, question, "create", "-f", "-", "-o", "json")
	if err != nil {
		x.unseen(check, err)
		return
	}
	var lacks []string
	answers := json.NewDecoder(bytes.NewReader(text)) // kubectl prints one object after the other, without a list
	for _, n := range needs {
		var a access
		if err := answers.Decode(&a); err != nil {
			x.unseen(check, fmt.Errorf("the API server's answers are incomplete: %w", err))
			return
		}
		if a.Status == nil || !a.Status.Allowed {
			lacks = append(lacks, n.verb+" "+strings.TrimSuffix(n.resource+"."+n.group, "."))
		}
	}
	if len(lacks) > 0 {
		x.fail(check, "the service account "+p.Metadata.Namespace+"/"+account+" lacks "+list(lacks), "Add manifests/components/metacontroller-rights: without the right to watch a kind, Metacontroller calls no hook at all")
		return
	}
	x.ok(check)
}

// serves reports whether the CompositeController calls hooks for VmGroups.
func (c *compositeController) serves() bool {
	return c.Spec.ParentResource.Resource == "vmgroups" && strings.HasPrefix(c.Spec.ParentResource.APIVersion, group+"/")
}

// hooks returns the URLs of the hooks, by name.
func (c *compositeController) hooks() map[string]*hookOf {
	return map[string]*hookOf{"customize": c.Spec.Hooks.Customize, "sync": c.Spec.Hooks.Sync, "finalize": c.Spec.Hooks.Finalize}
}

// address returns the URL of the sync hook without its path; nil if there is none.
func (c *compositeController) address() *url.URL {
	if c.Spec.Hooks.Sync == nil {
		return nil
	}
	u, err := url.Parse(c.Spec.Hooks.Sync.Webhook.URL)
	if err != nil || u.Host == "" {
		return nil
	}
	return u
}

// config returns how Metacontroller authenticates to the hooks; nil if it has no entry for their host.
func (c *compositeController) config() *endpointConfig {
	at := c.address()
	for i := range c.Spec.EndpointConfigs {
		if e := &c.Spec.EndpointConfigs[i]; at != nil && e.Host == at.Host {
			return e
		}
	}
	return nil
}

// selects reports whether Metacontroller calls the hooks for a group with these labels.
func (c *compositeController) selects(of map[string]string) bool {
	if c.Spec.ParentResource.LabelSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.ParentResource.LabelSelector)
	return err == nil && selector.Matches(labels.Set(of))
}

// compositeController checks the CompositeController that calls this server.
func (x *examination) compositeController() {
	const exists = "a CompositeController calls this server"
	listed, err := all[compositeController](x.cluster, controllersCRD)
	if err != nil {
		x.unseen(exists, err)
		return
	}
	var elsewhere []string
	for i := range listed {
		c := &listed[i]
		if !c.serves() {
			continue
		}
		x.controllers = append(x.controllers, *c)
		at := c.address()
		switch {
		case at != nil && (at.Hostname() == x.Name+"."+x.Namespace+".svc" || at.Hostname() == x.Name+"."+x.Namespace || strings.HasPrefix(at.Hostname(), x.Name+"."+x.Namespace+".svc.")):
			x.controller = c
		case at == nil:
			elsewhere = append(elsewhere, c.Metadata.Name+" has no URL of a sync hook")
		default:
			elsewhere = append(elsewhere, c.Metadata.Name+" calls "+at.Host)
		}
	}
	if x.controller == nil {
		detail := "there is none"
		if len(elsewhere) > 0 {
			detail = list(elsewhere)
		}
		x.fail(exists, detail, "Apply the CompositeController of this install (docs/install.md). Its hooks' host is "+x.Name+"."+x.Namespace+".svc")
		return
	}
	c := x.controller
	if c.Metadata.DeletionTimestamp != nil {
		x.fail(exists, c.Metadata.Name+" is being deleted", "Apply it again under the same name")
	} else {
		x.ok("%s (%s)", exists, c.Metadata.Name)
	}
	x.hookURLs(c)
	x.selectors(c)

	const resync = "it calls again while calls fail (resyncPeriodSeconds)"
	if s := c.Spec.ResyncPeriodSeconds; s <= 0 || s > 900 {
		x.warn(resync, fmt.Sprintf("resyncPeriodSeconds is %d", s), "Set it to 300: otherwise, after errors, Metacontroller can wait 1,000 s before it calls again")
	} else {
		x.ok("%s: every %d s", resync, s)
	}
	var lacks []string
	for _, kind := range []string{"v1 configmaps", "v1 services", "discovery.k8s.io/v1 endpointslices"} {
		if !slices.ContainsFunc(c.Spec.ChildResources, func(r struct {
			APIVersion, Resource string
			UpdateStrategy       struct{ Method string }
		}) bool {
			return r.APIVersion+" "+r.Resource == kind && r.UpdateStrategy.Method == "InPlace"
		}) {
			lacks = append(lacks, kind)
		}
	}
	const children = "it keeps the groups' ConfigMaps, Services and EndpointSlices"
	switch {
	case len(lacks) > 0:
		x.fail(children, "childResources lacks, with the method InPlace: "+list(lacks), "Apply the CompositeController of the server's release")
	case !c.Spec.GenerateSelector:
		x.fail(children, "generateSelector isn't true", "Apply the CompositeController of the server's release")
	default:
		x.ok(children)
	}
	x.complaints(c)
}

// hookURLs checks the hooks' versions and URLs.
func (x *examination) hookURLs(c *compositeController) {
	const check = "its hooks are complete"
	at := c.address()
	for _, name := range []string{"customize", "sync", "finalize"} {
		h := c.hooks()[name]
		want := at.Scheme + "://" + at.Host + "/" + name
		switch {
		case h == nil:
			x.fail(check, "it has no hook "+name, "Apply the CompositeController of the server's release: without finalize, VMs stay when a group is deleted")
			return
		case h.Version != "v2":
			x.fail(check, fmt.Sprintf("the hook %s has the version %q", name, h.Version), "Set it to v2")
			return
		case h.Webhook.URL != want:
			x.fail(check, fmt.Sprintf("the hook %s calls %s", name, h.Webhook.URL), "Correct it to "+want)
			return
		}
	}
	x.ok("%s (%s://%s)", check, at.Scheme, at.Host)
}

// selectors checks that no group is another install's as well.
func (x *examination) selectors(c *compositeController) {
	const check = "no other CompositeController selects the same groups"
	for i := range x.controllers {
		other := &x.controllers[i]
		if other.Metadata.Name == c.Metadata.Name {
			continue
		}
		for _, set := range x.labelSets(c, other) {
			if c.selects(set) && other.selects(set) {
				x.fail(check, fmt.Sprintf("%s selects groups with the labels {%s}, too", other.Metadata.Name, labels.Set(set)), "Correct the labelSelector of one of them (docs/vcenters.md): the server refuses groups that two installs have")
				return
			}
		}
	}
	x.ok(check)
}

// labelSets are the sets of labels that can tell two selectors apart: none, and what each of them asks for.
func (x *examination) labelSets(controllers ...*compositeController) []map[string]string {
	sets := []map[string]string{{}}
	for _, c := range controllers {
		s := c.Spec.ParentResource.LabelSelector
		if s == nil {
			continue
		}
		set := map[string]string{}
		for name, value := range s.MatchLabels {
			set[name] = value
		}
		for _, e := range s.MatchExpressions {
			switch {
			case e.Operator == metav1.LabelSelectorOpExists:
				set[e.Key] = "x"
			case e.Operator == metav1.LabelSelectorOpIn && len(e.Values) > 0:
				set[e.Key] = e.Values[0]
			}
		}
		sets = append(sets, set)
	}
	return sets
}

// complaints shows what Metacontroller last said about the CompositeController.
func (x *examination) complaints(c *compositeController) {
	const check = "Metacontroller has no complaint about it"
	events, err := all[event](x.cluster, "events", "--all-namespaces", "--field-selector", "involvedObject.kind=CompositeController,involvedObject.name="+c.Metadata.Name)
	if err != nil {
		x.unseen(check, err)
		return
	}
	e := newest(events)
	if e == nil || e.Type != "Warning" {
		x.ok(check)
		return
	}
	x.fail(check, join(e.Reason, e.Message), "Remove the cause. If it is a Secret that was missing then, restart Metacontroller, which reads Secrets only when it starts and when the CompositeController's spec changes")
}
