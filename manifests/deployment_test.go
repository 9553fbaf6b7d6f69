package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func pod(t *testing.T, objects built) (appsv1.DeploymentSpec, corev1.PodSpec, corev1.Container) {
	t.Helper()
	deployment := decode[appsv1.Deployment](t, objects, "Deployment/vmgroup").Spec
	pod := deployment.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatal("want one container in a pod")
	}
	return deployment, pod, pod.Containers[0]
}

// isFalse reports whether b is set and false; isTrue, whether it is set and true.
func isFalse(b *bool) bool { return b != nil && !*b }
func isTrue(b *bool) bool  { return b != nil && *b }

// The test applies the rules of Kubernetes' Pod Security Standards, profile "restricted", and requires a read-only root file system.
func TestThePodsAreRestricted(t *testing.T) {
	for tree := range trees {
		t.Run(tree, func(t *testing.T) {
			objects := build(t, tree)
			_, pod, container := pod(t, objects)
			if pod.HostNetwork || pod.HostPID || pod.HostIPC {
				t.Error("shares a namespace with its host")
			}
			allowed := func(v corev1.VolumeSource) bool {
				return v.Secret != nil || v.ConfigMap != nil || v.EmptyDir != nil
			}
			for _, volume := range pod.Volumes {
				if !allowed(volume.VolumeSource) {
					t.Errorf("volume %s is of a kind that is not allowed", volume.Name)
				}
			}
			for _, port := range container.Ports {
				if port.HostPort != 0 {
					t.Errorf("port %s is a port of the host", port.Name)
				}
			}
			p, c := pod.SecurityContext, container.SecurityContext
			if p == nil || c == nil {
				t.Fatal("the pod or the container has no security context")
			}
			if !isTrue(p.RunAsNonRoot) || !isTrue(c.RunAsNonRoot) || c.RunAsUser != nil {
				t.Error("the container can run as root")
			}
			if p.RunAsUser == nil || *p.RunAsUser != 65532 || p.RunAsGroup == nil || *p.RunAsGroup != 65532 {
				t.Error("the pod does not run as 65532:65532, the image's user")
			}
			if !isFalse(c.AllowPrivilegeEscalation) || isTrue(c.Privileged) {
				t.Error("the container can gain privileges")
			}
			if c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) != 0 {
				t.Error("the container keeps capabilities")
			}
			for _, profile := range []*corev1.SeccompProfile{p.SeccompProfile, c.SeccompProfile} {
				if profile == nil || profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					t.Error("seccomp is not RuntimeDefault")
				}
			}
			if !isTrue(c.ReadOnlyRootFilesystem) {
				t.Error("the container's root file system is writable")
			}
			if !isFalse(pod.AutomountServiceAccountToken) ||
				!isFalse(decode[corev1.ServiceAccount](t, objects, "ServiceAccount/"+pod.ServiceAccountName).AutomountServiceAccountToken) {
				t.Error("a service account's token is mounted")
			}
			if got := decode[corev1.Namespace](t, objects, "Namespace/vmgroup-system").Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
				t.Errorf("the namespace enforces %q; want %q", got, "restricted")
			}
		})
	}
}

func TestCredentialsComeFromFilesThatFollowTheSecret(t *testing.T) {
	_, pod, container := pod(t, build(t, "root"))
	mounts := map[string]string{}
	for _, mount := range container.VolumeMounts {
		if mount.SubPath != "" || !mount.ReadOnly {
			t.Errorf("%s: want a read-only mount without subPath, which would never change", mount.Name)
		}
		mounts[mount.Name] = mount.MountPath
	}
	var paths []string
	for _, volume := range pod.Volumes {
		if volume.Secret == nil || volume.Secret.SecretName != "vc-creds" {
			continue
		}
		for _, item := range volume.Secret.Items {
			paths = append(paths, filepath.Join(mounts[volume.Name], item.Path))
		}
	}
	env := map[string]corev1.EnvVar{}
	for _, v := range container.Env {
		env[v.Name] = v
		if from := v.ValueFrom; from != nil && from.SecretKeyRef != nil && v.Name != "VC_HOST" {
			t.Errorf("%s is fixed when the pod starts", v.Name)
		}
	}
	for _, name := range []string{"VC_USER_FILE", "VC_PASS_FILE"} {
		if !slices.Contains(paths, env[name].Value) {
			t.Errorf("%s is %q, but the Secret's files are %v", name, env[name].Value, paths)
		}
	}
	if from := env["VC_HOST"].ValueFrom; from == nil || from.SecretKeyRef == nil || from.SecretKeyRef.Name != "vc-creds" {
		t.Error("VC_HOST does not come from vc-creds")
	}
}

func TestTheSimulatorNeedsNoSecretAndHasOneVCenter(t *testing.T) {
	objects := build(t, "simulator")
	deployment, pod, container := pod(t, objects)
	if *deployment.Replicas != 1 || deployment.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Error("two replicas can run, each with its own vCenter")
	}
	if strings.Contains(string(objects["Deployment/vmgroup"]), "vc-creds") {
		t.Error("needs vc-creds")
	}
	if !slices.Contains(container.Args, "--simulator") {
		t.Errorf("serves %v", container.Args)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].EmptyDir == nil || container.VolumeMounts[0].MountPath != "/tmp" {
		t.Error("has no /tmp to write to")
	}
}

func TestOneReplicaServesAndEndsInItsTime(t *testing.T) {
	objects := build(t, "root")
	deployment, pod, container := pod(t, objects)
	if rolls := deployment.Strategy.RollingUpdate; *deployment.Replicas != 1 || rolls == nil || rolls.MaxUnavailable.String() != "0" || rolls.MaxSurge.String() != "1" {
		t.Errorf("%d replicas, %+v; want 1, and the next pod before the former one ends, or hook calls fail in between", *deployment.Replicas, deployment.Strategy)
	}
	const graceful = 15 // seconds that the server takes to end, at most
	if *pod.TerminationGracePeriodSeconds < container.Lifecycle.PreStop.Sleep.Seconds+graceful {
		t.Error("the pod is killed before the server has ended")
	}
	for name, probe := range map[string]*corev1.Probe{
		"/healthz": container.LivenessProbe, "/readyz": container.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != name || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("the container has no probe of %s at the port health", name)
		}
	}
	if container.StartupProbe == nil {
		t.Error("the container has no startup probe")
	}
	if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
		t.Error("the container requests no CPU, or has no limit of memory")
	}
	labels := deployment.Template.Labels
	for kind, selector := range map[string]map[string]string{
		"Deployment":    deployment.Selector.MatchLabels,
		"Service":       decode[corev1.Service](t, objects, "Service/vmgroup").Spec.Selector,
		"NetworkPolicy": decode[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy/vmgroup").Spec.PodSelector.MatchLabels,
	} {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, but the pods have %q", kind, k, v, labels[k])
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s has no selector", kind)
		}
	}
}

// Kubernetes and Prometheus would silently ignore a setting or metric that the source has renamed.
func TestEverySettingAndMetricNamedHereIsInTheSource(t *testing.T) {
	source := goSource(t, "../cmd", "../sync", "../vsphere")
	name := regexp.MustCompile(`\b(VC|VMGROUP)_[A-Z_]+\b|\bvmgroup_[a-z_]+\b`)
	part := regexp.MustCompile(`_seconds_(bucket|sum|count)$`) // the suffixes of a histogram's series
	for _, path := range files(t) {
		content, err := os.ReadFile(path)
		must.Succeed(t, err)
		for _, found := range name.FindAllString(string(content), -1) {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(found, "VMGROUP_"), "_", "-")) // the variable has its name from the flag
			if !strings.Contains(source, part.ReplaceAllString(found, "_seconds")) && !strings.Contains(source, `"`+flag+`"`) {
				t.Errorf("%s: %s is not in the source", path, found)
			}
		}
	}
}

func goSource(t *testing.T, dirs ...string) string {
	t.Helper()
	var source strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			source.Write(content)
			return err
		})
		must.Succeed(t, err)
	}
	return source.String()
}
