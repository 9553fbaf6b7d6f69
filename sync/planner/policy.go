// This file is what a spec asks for, with every default applied and every percentage resolved.

package planner

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// Policy is the spec with every default applied and every percentage resolved.
type Policy struct {
	Check                  v1alpha1.ReadinessCheck
	InitialDelay, Timeout  time.Duration
	MinReady, Deadline     time.Duration
	Surge, MinAvailable    int
	Resize                 v1alpha1.ResizeWay
	ReplaceOnTemplate      bool
	OnDelete, UpdatePaused bool
	Canary                 int           // -1: none
	MaxAge                 time.Duration // 0: any
	Heal                   v1alpha1.HealingAction
	MaxUnhealthy, AtOnce   int
	Order                  v1alpha1.ScaleInOrder
	Protected, RemoveFirst []string
	Shutdown, Quarantine   time.Duration
	Retain                 bool
	ReplaceMissing         time.Duration // 0: never
}

// PolicyOf returns the policy of a spec that wants so many members.
func PolicyOf(spec *v1alpha1.VmGroupSpec, want int) Policy {
	u, r, h, d := &spec.Update, &spec.Readiness, &spec.Healing, &spec.Deletion
	p := Policy{
		Check:        cmp.Or(r.Check, v1alpha1.ReadyPoweredOn),
		InitialDelay: plan.Seconds(&r.InitialDelaySeconds, 0), Timeout: plan.Seconds(r.TimeoutSeconds, v1alpha1.DefaultReadinessTimeout),
		MinReady: plan.Seconds(&u.MinReadySeconds, 0), Deadline: plan.Seconds(u.ProgressDeadlineSeconds, v1alpha1.DefaultProgressDeadline),
		Surge:             scaled(u.MaxSurge, v1alpha1.DefaultMaxSurge, want, true),
		Resize:            cmp.Or(u.Resize, v1alpha1.ResizeAuto),
		ReplaceOnTemplate: u.OnTemplateChange == v1alpha1.TemplateChangeReplace,
		OnDelete:          u.Strategy == v1alpha1.UpdateOnDelete, UpdatePaused: u.Paused, Canary: -1, MaxAge: plan.Seconds(u.MaxAgeSeconds, 0),
		Heal:         cmp.Or(h.Action, v1alpha1.HealRestartThenReplace),
		MaxUnhealthy: max(1, scaled(h.MaxUnhealthy, v1alpha1.DefaultMaxUnhealthy, want, false)),
		AtOnce:       max(1, scaled(h.MaxConcurrent, v1alpha1.DefaultMaxConcurrent, want, true)),
		Order:        cmp.Or(spec.ScaleIn.Order, v1alpha1.ScaleInHighestOrdinal),
		Protected:    spec.ScaleIn.Protected, RemoveFirst: spec.ScaleIn.Remove,
		Shutdown: plan.Seconds(d.ShutdownTimeoutSeconds, v1alpha1.DefaultShutdownTimeout), Quarantine: plan.Seconds(&d.QuarantineSeconds, 0),
		Retain: d.Policy == v1alpha1.DeletionRetain, ReplaceMissing: plan.Seconds(h.ReplaceVanishedAfterSeconds, 0),
	}
	unavailable := scaled(u.MaxUnavailable, v1alpha1.DefaultMaxUnavailable, want, false)
	if unavailable == 0 && p.Surge == 0 {
		unavailable = 1 // as Deployments do (ResolveFenceposts): percentages of a small group may both come out as 0
	}
	if spec.HasPersistentDisks() { // an extra member would have empty disks
		p.Surge, unavailable = 0, max(1, unavailable)
	}
	p.MinAvailable = max(0, want-unavailable)
	if u.Canary != nil {
		p.Canary = scaled(u.Canary, "", want, true)
	}
	return p
}

// scaled resolves a number or percentage of want; an invalid one (which Validate refuses) is the default.
func scaled(v *intstr.IntOrString, otherwise string, want int, up bool) int {
	byDefault := intstr.FromString(otherwise)
	if v == nil {
		v = &byDefault
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, want, up)
	if err != nil {
		n, _ = intstr.GetScaledValueFromIntOrPercent(&byDefault, want, up)
	}
	return max(0, n)
}

// Held reports whether a field of the spec keeps members that differ from it as they are.
func (p *Policy) Held() bool { return p.OnDelete || p.UpdatePaused }

// Protects reports whether a member is removed last in a scale-in.
func (p *Policy) Protects(name string) bool { return slices.Contains(p.Protected, name) }
