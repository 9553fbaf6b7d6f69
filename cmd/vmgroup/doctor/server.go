package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// server checks the Deployment and its pods.
func (x *examination) server() {
	const exists = "the server's Deployment exists"
	d, found, err := one[deployment](x.cluster, "deployment", x.Name)
	switch {
	case err != nil:
		x.unseen(exists, err)
		return
	case !found:
		x.fail(exists, "there is no Deployment "+x.Namespace+"/"+x.Name, "Name the install with --install-namespace and --install, or install VmGroup (docs/install.md)")
		return
	case d.Spec.Replicas != nil && *d.Spec.Replicas == 0:
		x.deployment = d
		x.fail(exists, "it is scaled to 0", "kubectl -n "+x.Namespace+" scale deployment "+x.Name+" --replicas=1")
		return
	}
	x.deployment = d
	x.ok(exists)

	const ready = "its pods are ready"
	selector, err := metav1.LabelSelectorAsSelector(&d.Spec.Selector)
	if err != nil {
		x.unseen(ready, err)
		return
	}
	pods, err := all[pod](x.cluster, "pods", "--selector", selector.String())
	if err != nil {
		x.unseen(ready, err)
		return
	}
	if x.pods = pods; len(pods) == 0 {
		why := "it has none"
		for _, c := range d.Status.Conditions {
			if c.Type == "ReplicaFailure" && c.Status == "True" {
				why = join(c.Reason, c.Message)
			}
		}
		x.fail(ready, why, "See kubectl -n "+x.Namespace+" describe replicasets -l "+selector.String())
		return
	}
	var down []*pod
	for i := range pods {
		if p := &pods[i]; !p.ready() {
			down = append(down, p)
		}
	}
	if len(down) == 0 {
		x.ok("%s (%d)", ready, len(pods))
	}
	for _, p := range down {
		detail := p.Metadata.Name + ": " + p.trouble()
		if last, _ := p.lastExit(); last != nil {
			if !strings.Contains(detail, last.String()) {
				detail += "; it ended with " + last.String()
			}
			if said := x.lastWords(p); said != "" {
				detail += "; its last line was: " + said
			}
		}
		level, todo := Fail, "See kubectl -n "+x.Namespace+" describe pod "+p.Metadata.Name
		if len(down) < len(pods) {
			level = Warn
		}
		x.say(level, ready, detail, todo)
	}
	for i := range pods {
		x.exits(pods[i].Metadata.Name, &pods[i])
	}
}

// lastWords returns the last line of the log of a container that ended; empty if there is none or the user isn't allowed to read it.
func (x *examination) lastWords(p *pod) string {
	for _, args := range [][]string{{"--previous"}, nil} {
		text, err := x.kubectl(x.ctx, nil, append([]string{"logs", p.Metadata.Name, "--tail=1"}, args...)...)
		if line := strings.TrimSpace(string(text)); err == nil && line != "" {
			return line
		}
	}
	return ""
}

// network checks the way from Metacontroller to the pods: the Service, its endpoints and the NetworkPolicy.
func (x *examination) network() {
	const exists = "the Service leads to the server"
	s, found, err := one[service](x.cluster, "service", x.Name)
	switch {
	case err != nil:
		x.unseen(exists, err)
	case !found:
		x.fail(exists, "there is no Service "+x.Namespace+"/"+x.Name, "Apply the Service of the server's release")
		return
	case !x.leads(s):
		return
	default:
		x.ok(exists)
		x.portOf(s)
	}

	const endpoints = "the Service has a ready endpoint"
	slicesOf, err := all[endpointSlice](x.cluster, "endpointslices", "--selector", "kubernetes.io/service-name="+x.Name)
	if err != nil {
		x.unseen(endpoints, err)
	} else {
		n := 0
		for _, s := range slicesOf {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					n += len(e.Addresses)
				}
			}
		}
		if n == 0 {
			x.fail(endpoints, "it has none", "Until a pod is ready, Metacontroller's calls are refused. If one is, see whether the cluster's EndpointSlice controller runs")
		} else {
			x.ok("%s (%d)", endpoints, n)
		}
	}
	x.policies()
}

// leads checks that the Service selects the Deployment's pods.
func (x *examination) leads(s *service) bool {
	if x.deployment == nil {
		return true
	}
	of := x.deployment.Spec.Selector.MatchLabels
	if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(of)) {
		return true
	}
	x.fail("the Service leads to the server", fmt.Sprintf("it selects pods with {%s}, and the Deployment's have {%s}", labels.Set(s.Spec.Selector), labels.Set(of)), "Apply the Service of the server's release")
	return false
}

// portOf checks that the Service has the port that the CompositeController calls.
func (x *examination) portOf(s *service) {
	if x.controller == nil {
		return
	}
	at := x.controller.address()
	port := at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
	}
	var has []string
	for _, p := range s.Spec.Ports {
		if has = append(has, fmt.Sprint(p.Port)); p.Name == "hooks" && fmt.Sprint(p.Port) == port {
			x.ok("it has the port that the CompositeController calls (%s)", port)
			return
		}
	}
	x.fail("it has the port that the CompositeController calls", "the hooks' URL has the port "+port+", and the Service has "+list(has), "Correct the URLs of the hooks, and the host of the endpointConfig")
}

// policies checks that the NetworkPolicies let Metacontroller's namespace in.
func (x *examination) policies() {
	const check = "the NetworkPolicies let Metacontroller in"
	if x.caller == nil || x.deployment == nil {
		return
	}
	policies, err := all[networkPolicy](x.cluster, "networkpolicies")
	if err != nil {
		x.unseen(check, err)
		return
	}
	ns, found, err := one[object](x.cluster, "namespace", x.caller.Metadata.Namespace)
	if err != nil || !found { // this label is always there
		ns = &object{Metadata: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/metadata.name": x.caller.Metadata.Namespace}}}
	}
	var closed []string
	for i := range policies {
		p := &policies[i]
		if !matches(&p.Spec.PodSelector, x.deployment.Spec.Selector.MatchLabels) || len(p.Spec.PolicyTypes) > 0 && !slices.Contains(p.Spec.PolicyTypes, "Ingress") {
			continue
		}
		if p.admits(x.caller, ns, x.Namespace) { // policies add up
			x.ok("%s (%s)", check, p.Metadata.Name)
			return
		}
		closed = append(closed, p.Metadata.Name)
	}
	if len(closed) == 0 {
		x.warn(check, "none selects the server's pods, so every pod of the cluster can connect to the hooks", "Apply the NetworkPolicy of the server's release (SECURITY.md)")
		return
	}
	x.fail(check, fmt.Sprintf("%s: no rule for the hooks' port names Metacontroller's namespace %s", list(closed), x.caller.Metadata.Namespace), "Name that namespace in the NetworkPolicy (with Helm: caller.namespace)")
}

// admits reports whether a rule lets a pod in at the hooks' port. An address range may, so it counts.
func (p *networkPolicy) admits(from *pod, namespace *object, own string) bool {
	for _, rule := range p.Spec.Ingress {
		port := len(rule.Ports) == 0
		for _, at := range rule.Ports {
			port = port || at.Port == nil || at.Port.String() == "hooks" || at.Port.String() == "8443" || at.Port.String() == "8080"
		}
		if !port {
			continue
		}
		if len(rule.From) == 0 {
			return true
		}
		for _, peer := range rule.From {
			inNamespace := peer.NamespaceSelector == nil && namespace.Metadata.Labels["kubernetes.io/metadata.name"] == own || peer.NamespaceSelector != nil && matches(peer.NamespaceSelector, namespace.Metadata.Labels)
			if peer.IPBlock != nil || inNamespace && (peer.PodSelector == nil || matches(peer.PodSelector, from.Metadata.Labels)) {
				return true
			}
		}
	}
	return false
}

func matches(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

// groups checks what Metacontroller and the API server know about groups.
func (x *examination) groups() {
	const served = "each VmGroup is selected by a CompositeController"
	if groups, err := all[object](x.cluster, groupsCRD, "--all-namespaces"); err != nil {
		x.unseen(served, err)
	} else if x.controllers != nil {
		var unserved, hanging []string
		for i := range groups {
			m := &groups[i].Metadata
			if !slices.ContainsFunc(x.controllers, func(c compositeController) bool { return c.selects(m.Labels) }) {
				unserved = append(unserved, m.Namespace+"/"+m.Name)
			}
			for _, f := range m.Finalizers {
				name, ours := strings.CutPrefix(f, "metacontroller.io/compositecontroller-")
				if ours && m.DeletionTimestamp != nil && !slices.ContainsFunc(x.controllers, func(c compositeController) bool { return c.Metadata.Name == name }) {
					hanging = append(hanging, m.Namespace+"/"+m.Name+" waits for "+name)
				}
			}
		}
		if len(unserved) > 0 {
			x.warn(served, "none selects "+list(unserved), "Correct the label vm.codeconnect.vmworld.com/vcenter (docs/vcenters.md#find-groups-without-an-install)")
		} else {
			x.ok("%s (%d)", served, len(groups))
		}
		if len(hanging) > 0 {
			x.fail("no deletion waits for a CompositeController that is gone", list(hanging), "Add the install of that name again (docs/vcenters.md#remove-an-install)")
		}
	}

	const calls = "no call of a hook has failed within the last 10 minutes"
	events, err := all[event](x.cluster, "events", "--all-namespaces", "--field-selector", "involvedObject.kind=VmGroup,reason=SyncError")
	if err != nil {
		x.unseen(calls, err)
		return
	}
	groups := map[string]bool{}
	events = slices.DeleteFunc(events, func(e event) bool { return x.Now.Sub(e.last()) > tenMinutes })
	for _, e := range events {
		groups[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] = true
	}
	if len(events) == 0 {
		x.ok(calls)
		return
	}
	e := newest(events)
	names := slices.Sorted(maps.Keys(groups))
	x.warn(calls, fmt.Sprintf("for %s; the last at %s UTC: %s", list(names), e.last().UTC().Format("15:04:05"), e.Message), "If nothing failed above, this is over (a restart, for example); otherwise it ends with that")
}

var errNoPod = errors.New("no pod of the server runs")
