package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// cluster reads objects with kubectl.
type cluster struct {
	ctx     context.Context
	kubectl Kubectl
}

// read decodes what kubectl prints. It leaves into as it is if kubectl prints nothing.
func (c *cluster) read(into any, args ...string) error {
	text, err := c.kubectl(c.ctx, nil, args...)
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// one reads an object. found is false if there is none.
func one[T any](c *cluster, kind, name string, args ...string) (object *T, found bool, err error) {
	text, err := c.kubectl(c.ctx, nil, append([]string{"get", kind, name, "--ignore-not-found", "-o", "json"}, args...)...)
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return nil, false, err
	}
	object = new(T)
	if err := json.Unmarshal(text, object); err != nil {
		return nil, false, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	return object, true, nil
}

// all lists objects.
func all[T any](c *cluster, kind string, args ...string) ([]T, error) {
	var objects struct{ Items []T }
	err := c.read(&objects, append([]string{"get", kind, "-o", "json"}, args...)...)
	return objects.Items, err
}

// The types below have the fields of Kubernetes' and Metacontroller's objects that the checks read.

type object struct {
	Metadata metav1.ObjectMeta
}

type container struct {
	Name, Image string
	Env         []struct {
		Name, Value string
		ValueFrom   struct{ SecretKeyRef *keyRef }
	}
	EnvFrom []struct {
		SecretRef, ConfigMapRef *struct {
			Name     string
			Optional bool
		}
	}
}

type keyRef struct {
	Name, Namespace, Key string
	Optional             bool
}

type podSpec struct {
	ServiceAccountName string
	NodeName           string
	Containers         []container
	Volumes            []struct {
		Secret *struct {
			SecretName string
			Optional   bool
			Items      []struct{ Key string }
		}
		ConfigMap *struct {
			Name     string
			Optional bool
		}
	}
}

// env returns the value of a container's variable.
func (s *podSpec) env(name string) string {
	for _, c := range s.Containers {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value
			}
		}
	}
	return ""
}

type deployment struct {
	object
	Spec struct {
		Replicas *int32
		Selector metav1.LabelSelector
		Template struct{ Spec podSpec }
	}
	Status struct {
		Conditions []condition
	}
}

type condition struct{ Type, Status, Reason, Message string }

type pod struct {
	object
	Spec   podSpec
	Status struct {
		Phase, Reason, Message string
		Conditions             []condition
		ContainerStatuses      []struct {
			Name         string
			Ready        bool
			RestartCount int
			State        struct {
				Waiting    *struct{ Reason, Message string }
				Terminated *ended
			}
			LastState struct{ Terminated *ended }
		}
	}
}

// ended is how a container ended.
type ended struct {
	Reason, Message string
	ExitCode        int
	FinishedAt      metav1.Time
}

func (p *pod) running() bool {
	return p.Status.Phase == "Running" && p.Metadata.DeletionTimestamp == nil
}

func (p *pod) ready() bool {
	return p.running() && slices.ContainsFunc(p.Status.Conditions, func(c condition) bool { return c.Type == "Ready" && c.Status == "True" })
}

// lastExit returns how a container of the pod ended last, and how often it was restarted; nil if none ended.
func (p *pod) lastExit() (last *ended, restarts int) {
	for _, c := range p.Status.ContainerStatuses {
		restarts += c.RestartCount
		for _, e := range []*ended{c.State.Terminated, c.LastState.Terminated} {
			if e != nil && (last == nil || e.FinishedAt.After(last.FinishedAt.Time)) {
				last = e
			}
		}
	}
	return last, restarts
}

// trouble says why the pod isn't ready.
func (p *pod) trouble() string {
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return join(w.Reason, w.Message)
		}
		if e := c.State.Terminated; e != nil {
			return e.String()
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return "no node takes it: " + c.Message
		}
	}
	if p.Metadata.DeletionTimestamp != nil {
		return "it is being deleted"
	}
	if text := join(p.Status.Reason, p.Status.Message); text != "" {
		return text
	}
	if p.Status.Phase == "Running" {
		return "it runs, and its readiness probe fails"
	}
	return "its phase is " + p.Status.Phase
}

func (e *ended) String() string {
	text := fmt.Sprintf("%s, exit code %d", e.Reason, e.ExitCode)
	if !e.FinishedAt.IsZero() {
		text += ", at " + e.FinishedAt.UTC().Format(time.DateTime) + " UTC"
	}
	return join(text, e.Message)
}

// join returns the texts that aren't empty, with a colon between them.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ": " + strings.TrimSpace(b)
}

type service struct {
	object
	Spec struct {
		Selector map[string]string
		Ports    []struct {
			Name       string
			Port       int
			TargetPort intstr.IntOrString
		}
	}
}

type endpointSlice struct {
	object
	Endpoints []struct {
		Addresses  []string
		Conditions struct{ Ready *bool }
	}
}

type networkPolicy struct {
	object
	Spec struct {
		PodSelector metav1.LabelSelector
		PolicyTypes []string
		Ingress     []struct {
			From []struct {
				NamespaceSelector, PodSelector *metav1.LabelSelector
				IPBlock                        *struct{ CIDR string }
			}
			Ports []struct{ Port *intstr.IntOrString }
		}
	}
}

type secret struct {
	object
	Data map[string][]byte
}

type event struct {
	object
	InvolvedObject struct{ Kind, Namespace, Name string }
	Type           string
	Reason         string
	Message        string
	LastTimestamp  metav1.Time
	EventTime      metav1.Time
	Series         *struct{ LastObservedTime metav1.Time }
}

func (e *event) last() time.Time {
	last := e.LastTimestamp.Time
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(last) {
		last = e.Series.LastObservedTime.Time
	}
	if last.IsZero() {
		last = e.Metadata.CreationTimestamp.Time
	}
	return last
}

// newest returns the Event that was seen last; nil if there is none.
func newest(events []event) *event {
	if len(events) == 0 {
		return nil
	}
	e := slices.MaxFunc(events, func(a, b event) int { return a.last().Compare(b.last()) })
	return &e
}

type hookOf struct {
	Version string
	Webhook struct {
		URL     string
		Timeout string
	}
}

type compositeController struct {
	object
	Spec struct {
		ParentResource struct {
			APIVersion, Resource string
			IgnoreStatusChanges  bool
			LabelSelector        *metav1.LabelSelector
		}
		GenerateSelector bool
		ChildResources   []struct {
			APIVersion, Resource string
			UpdateStrategy       struct{ Method string }
		}
		ResyncPeriodSeconds int
		EndpointConfigs     []endpointConfig
		Hooks               struct{ Customize, Sync, Finalize *hookOf }
	}
}

type endpointConfig struct {
	Host     string
	CABundle *struct{ SecretRef, ConfigMapRef *keyRef }
	// Authorization has the token.
	Authorization *struct {
		Type      string
		SecretRef *keyRef
	}
	ClientTLS *struct {
		SecretRef              keyRef
		CertKey, PrivateKeyKey string
	}
}

// list joins names, and says how many it leaves out.
func list(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
