// Command informer keeps shared informers of client-go, one dynamic and one typed, on a hub, as any Kubernetes controller does. It is a
// module of its own, so that client-go is no dependency of Drover.
//
// Each line of its input is a question, answered by a line: "list" compares what the informers hold with what a fresh list has, and says
// "equal N" (workloads and config maps together) or "different" and how. It ends with its input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var workloads = schema.GroupVersionResource{Group: "fleet.drover.dev", Version: "v1", Resource: "workloads"}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

// clients are made from KUBECONFIG.
type clients struct {
	dynamic dynamic.Interface
	typed   kubernetes.Interface
}

func connect() (clients, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return clients{}, err
	}
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return clients{}, err
	}
	k, err := kubernetes.NewForConfig(cfg)
	return clients{d, k}, err
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := connect()
	if err != nil {
		return err
	}
	own := dynamicinformer.NewDynamicSharedInformerFactory(c.dynamic, 0)
	core := informers.NewSharedInformerFactory(c.typed, 0)
	w := own.ForResource(workloads)
	m := core.Core().V1().ConfigMaps()
	var events atomic.Int64
	for _, i := range []cache.SharedIndexInformer{w.Informer(), m.Informer()} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { events.Add(1) },
			UpdateFunc: func(any, any) { events.Add(1) },
			DeleteFunc: func(any) { events.Add(1) },
		}); err != nil {
			return err
		}
	}
	own.Start(ctx.Done())
	core.Start(ctx.Done())
	own.WaitForCacheSync(ctx.Done())
	core.WaitForCacheSync(ctx.Done())
	fmt.Println("synced")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() != "list" {
			return fmt.Errorf("unknown question %q", in.Text())
		}
		have, err := held(w.Lister(), m.Lister().List)
		if err != nil {
			return err
		}
		want, err := c.listed(ctx)
		if err != nil {
			fmt.Println("different: the list failed:", err)
			continue
		}
		if a, b := strings.Join(have, " "), strings.Join(want, " "); a != b {
			fmt.Printf("different: held %s, listed %s\n", a, b)
			continue
		}
		fmt.Printf("equal %d after %d events\n", len(have), events.Load())
	}
	return nil
}

func name(kind string, o metav1.Object) string {
	return fmt.Sprintf("%s/%s/%s@%s", kind, o.GetNamespace(), o.GetName(), o.GetResourceVersion())
}

// held is what the informers have.
func held(w cache.GenericLister, maps func(labels.Selector) ([]*corev1.ConfigMap, error)) ([]string, error) {
	var out []string
	objs, err := w.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, o := range objs {
		out = append(out, name("workload", o.(metav1.Object)))
	}
	cms, err := maps(labels.Everything())
	if err != nil {
		return nil, err
	}
	for _, o := range cms {
		out = append(out, name("configmap", o))
	}
	sort.Strings(out)
	return out, nil
}

// listed is what the hub has.
func (c clients) listed(ctx context.Context) ([]string, error) {
	var out []string
	ws, err := c.dynamic.Resource(workloads).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range ws.Items {
		out = append(out, name("workload", &ws.Items[i]))
	}
	cms, err := c.typed.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range cms.Items {
		out = append(out, name("configmap", &cms.Items[i]))
	}
	sort.Strings(out)
	return out, nil
}
