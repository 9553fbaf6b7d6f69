package v1alpha1

import (
	"fmt"
	"reflect"
	"regexp"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (r *Readiness) validate(path *field.Path) (errs field.ErrorList) {
	if *r == (Readiness{}) {
		return nil
	}
	errs = append(errs, oneOf(path.Child("check"), r.Check, ReadyPoweredOn, ReadyToolsRunning, ReadyGuestIP)...)
	errs = append(errs, seconds(path.Child("initialDelaySeconds"), &r.InitialDelaySeconds, 0)...)
	errs = append(errs, seconds(path.Child("timeoutSeconds"), r.TimeoutSeconds, 1)...)
	return append(errs, r.validateProbes(path)...)
}

func (u *Update) validate(path *field.Path) (errs field.ErrorList) {
	if reflect.ValueOf(u).Elem().IsZero() {
		return nil
	}
	errs = append(errs, oneOf(path.Child("strategy"), u.Strategy, UpdateRolling, UpdateOnDelete)...)
	errs = append(errs, oneOf(path.Child("resize"), u.Resize, ResizeAuto, ResizeInPlace, ResizeReplace)...)
	errs = append(errs, oneOf(path.Child("onTemplateChange"), u.OnTemplateChange, TemplateChangeIgnore, TemplateChangeReplace)...)
	errs = append(errs, share(path.Child("maxSurge"), u.MaxSurge, 0)...)
	errs = append(errs, share(path.Child("maxUnavailable"), u.MaxUnavailable, 0)...)
	errs = append(errs, share(path.Child("canary"), u.Canary, 0)...)
	if isZero(u.MaxSurge) && isZero(u.MaxUnavailable) {
		errs = append(errs, field.Invalid(path.Child("maxUnavailable"), u.MaxUnavailable.String(),
			"maxSurge and maxUnavailable cannot both be 0: no member could ever be replaced"))
	}
	errs = append(errs, seconds(path.Child("minReadySeconds"), &u.MinReadySeconds, 0)...)
	deadline := int32(DefaultProgressDeadline)
	if u.ProgressDeadlineSeconds != nil {
		deadline = *u.ProgressDeadlineSeconds
	}
	bound := between(path.Child("progressDeadlineSeconds"), deadline, 1, MaxSeconds)
	if bound == nil && u.MinReadySeconds >= deadline {
		bound = field.ErrorList{field.Invalid(path.Child("progressDeadlineSeconds"), deadline,
			fmt.Sprintf("must be greater than minReadySeconds, which is %d", u.MinReadySeconds))}
	}
	return append(append(errs, bound...), u.validateRefresh(path, deadline)...)
}

func (h *Healing) validate(path *field.Path) (errs field.ErrorList) {
	if *h == (Healing{}) {
		return nil
	}
	errs = append(errs, oneOf(path.Child("action"), h.Action, HealRestartThenReplace, HealReplace, HealNone)...)
	errs = append(errs, share(path.Child("maxUnhealthy"), h.MaxUnhealthy, 0)...)
	errs = append(errs, share(path.Child("maxConcurrent"), h.MaxConcurrent, 1)...)
	return append(errs, seconds(path.Child("replaceVanishedAfterSeconds"), h.ReplaceVanishedAfterSeconds, 60)...)
}

func (d *Deletion) validate(path *field.Path) (errs field.ErrorList) {
	if *d == (Deletion{}) {
		return nil
	}
	errs = append(errs, oneOf(path.Child("policy"), d.Policy, DeletionDelete, DeletionRetain)...)
	errs = append(errs, seconds(path.Child("shutdownTimeoutSeconds"), d.ShutdownTimeoutSeconds, 0)...)
	errs = append(errs, seconds(path.Child("holdTimeoutSeconds"), &d.HoldTimeoutSeconds, 0)...)
	return append(errs, seconds(path.Child("quarantineSeconds"), &d.QuarantineSeconds, 0)...)
}

var percentage = regexp.MustCompile(`^(100|[1-9]?[0-9])%$`)

// share checks a number of members or a percentage of them, which can be unset.
func share(path *field.Path, value *intstr.IntOrString, low int32) field.ErrorList {
	switch {
	case value == nil:
	case value.Type == intstr.Int && (value.IntVal < low || value.IntVal > MaxReplicas),
		value.Type == intstr.String && (!percentage.MatchString(value.StrVal) || low > 0 && value.StrVal == "0%"):
		return field.ErrorList{field.Invalid(path, value.String(),
			fmt.Sprintf("must be a number from %d to %d or a percentage from %d%% to 100%%", low, MaxReplicas, low))}
	}
	return nil
}

func isZero(value *intstr.IntOrString) bool {
	return value != nil && (*value == intstr.FromInt32(0) || *value == intstr.FromString("0%"))
}
