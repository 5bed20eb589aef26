/** The shop's tools: what tau2-bench's retail domain lets an agent do, by its documented rules. */
import { evaluate } from 'mathjs';
import {
  addToBalance,
  cents,
  checkCovers,
  findOrder,
  findPayment,
  findUser,
  findVariant,
  putOrder,
  putUser,
  refuse,
  type Address,
  type Item,
  type Order,
  type Shop,
  type User,
} from './shop.ts';

type Args = Record<string, unknown>;

interface ShopTool {
  name: string;
  /** Names of the arguments; those ending in `_ids` are lists. */
  takes: readonly string[];
  /** Whether it changes nothing. */
  reads: boolean;
  run: (shop: Shop, args: Args) => unknown;
}

const ADDRESS = ['address1', 'address2', 'city', 'state', 'country', 'zip'] as const;
const REASONS = ['no longer needed', 'ordered by mistake'];

export const SHOP_TOOLS: readonly ShopTool[] = [
  tool('calculate', ['expression'], { reads: true, run: (_shop, args) => calculate(text(args, 'expression')) }),
  tool('transfer_to_human_agents', ['summary'], { reads: true, run: () => 'Transfer successful' }),
  tool('list_all_product_types', [], { reads: true, run: ({ data }) => productTypes(data.products) }),
  tool('find_user_id_by_email', ['email'], {
    reads: true,
    run: (shop, args) => findUserId(shop, (user) => isSame(user.email, text(args, 'email'))),
  }),
  tool('find_user_id_by_name_zip', ['first_name', 'last_name', 'zip'], {
    reads: true,
    run: (shop, args) =>
      findUserId(shop, ({ name, address }) => {
        const isName =
          isSame(name.first_name, text(args, 'first_name')) && isSame(name.last_name, text(args, 'last_name'));
        return isName && address.zip === text(args, 'zip');
      }),
  }),
  tool('get_user_details', ['user_id'], { reads: true, run: (shop, args) => findUser(shop, text(args, 'user_id')) }),
  tool('get_order_details', ['order_id'], {
    reads: true,
    run: (shop, args) => findOrder(shop, text(args, 'order_id')),
  }),
  tool('get_product_details', ['product_id'], {
    reads: true,
    run: ({ data }, args) => data.products[text(args, 'product_id')] ?? refuse('there is no such product'),
  }),
  tool('get_item_details', ['item_id'], { reads: true, run: findItem }),
  tool('modify_user_address', ['user_id', ...ADDRESS], {
    reads: false,
    run: (shop, args) => putUser(shop, { ...findUser(shop, text(args, 'user_id')), address: addressOf(args) }),
  }),
  tool('modify_pending_order_address', ['order_id', ...ADDRESS], {
    reads: false,
    run: (shop, args) => putOrder(shop, { ...pendingOrder(shop, args), address: addressOf(args) }),
  }),
  tool('cancel_pending_order', ['order_id', 'reason'], { reads: false, run: cancel }),
  tool('modify_pending_order_items', ['order_id', 'item_ids', 'new_item_ids', 'payment_method_id'], {
    reads: false,
    run: changeItems,
  }),
  tool('modify_pending_order_payment', ['order_id', 'payment_method_id'], { reads: false, run: changePayment }),
  tool('exchange_delivered_order_items', ['order_id', 'item_ids', 'new_item_ids', 'payment_method_id'], {
    reads: false,
    run: exchange,
  }),
  tool('return_delivered_order_items', ['order_id', 'item_ids', 'payment_method_id'], { reads: false, run: giveBack }),
];

function tool(name: string, takes: readonly string[], does: Pick<ShopTool, 'reads' | 'run'>): ShopTool {
  return { name, takes, ...does };
}

function calculate(expression: string): string {
  if (/[^0-9+\-*/(). ]/.test(expression)) refuse('the expression has characters that none may have');
  return String(cents(Number(evaluate(expression))));
}

function productTypes(products: Shop['data']['products']): Record<string, string> {
  const pairs = Object.values(products).map(({ name, product_id }): [string, string] => [name, product_id]);
  return Object.fromEntries(pairs.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function findUserId({ data, changes }: Shop, isMeant: (user: User) => boolean): string {
  const found = Object.values({ ...data.users, ...changes.users }).find(isMeant);
  return found?.user_id ?? refuse('there is no such user');
}

function findItem({ data }: Shop, args: Args): unknown {
  const id = text(args, 'item_id');
  const product = Object.values(data.products).find(({ variants }) => variants[id]);
  return product?.variants[id] ?? refuse('there is no such item');
}

/** Refunds each payment to its method; a gift card gets it at once. */
function cancel(shop: Shop, args: Args): Order {
  const order = findOrder(shop, text(args, 'order_id'));
  const reason = text(args, 'reason');
  if (order.status !== 'pending') refuse('the order is not pending');
  if (!REASONS.includes(reason)) refuse('this is no reason');
  for (const { payment_method_id: id, amount } of order.payment_history)
    addToBalance(shop, order.user_id, { id, amount });
  const refunds = order.payment_history.map((payment) => ({ ...payment, transaction_type: 'refund' as const }));
  const payment_history = [...order.payment_history, ...refunds];
  return putOrder(shop, { ...order, status: 'cancelled', cancel_reason: reason, payment_history });
}

function changeItems(shop: Shop, args: Args): Order {
  const order = findOrder(shop, text(args, 'order_id'));
  if (order.status !== 'pending') refuse('the order is not pending');
  const pairs = pairsOf(shop, order, args);
  if (pairs.some(({ old, variant }) => old.item_id === variant.item_id))
    refuse('an item is to be exchanged for itself');
  const id = text(args, 'payment_method_id');
  const method = findPayment(shop, order.user_id, id);
  const difference = differenceOf(pairs);
  checkCovers(method, difference);
  addToBalance(shop, order.user_id, { id, amount: -difference });
  const type = difference > 0 ? ('payment' as const) : ('refund' as const);
  const payment = { transaction_type: type, amount: Math.abs(difference), payment_method_id: id };
  const items = order.items.map((item) => ({ ...item }));
  const last = pairs.at(-1)?.variant;
  for (const { old, variant } of pairs) {
    const item = items.find(({ item_id }) => item_id === old.item_id);
    // In the benchmark's references every changed item has price and options of the last variant.
    if (item && last) Object.assign(item, { item_id: variant.item_id, price: last.price, options: last.options });
  }
  const payment_history = [...order.payment_history, payment];
  return putOrder(shop, { ...order, items, status: 'pending (item modified)', payment_history });
}

function changePayment(shop: Shop, args: Args): Order {
  const order = pendingOrder(shop, args);
  const id = text(args, 'payment_method_id');
  const method = findPayment(shop, order.user_id, id);
  const [paid, ...others] = order.payment_history;
  if (!paid || others.length > 0 || paid.transaction_type !== 'payment') refuse('the order was not paid for just once');
  if (paid.payment_method_id === id) refuse('it was paid for in this way');
  const { amount } = paid;
  checkCovers(method, amount);
  addToBalance(shop, order.user_id, { id, amount: -amount });
  addToBalance(shop, order.user_id, { id: paid.payment_method_id, amount });
  const refund = { transaction_type: 'refund' as const, amount, payment_method_id: paid.payment_method_id };
  const payment = { transaction_type: 'payment' as const, amount, payment_method_id: id };
  return putOrder(shop, { ...order, payment_history: [paid, payment, refund] });
}

function exchange(shop: Shop, args: Args): Order {
  const order = deliveredOrder(shop, args);
  const pairs = pairsOf(shop, order, args);
  const difference = cents(differenceOf(pairs));
  const id = text(args, 'payment_method_id');
  checkCovers(findPayment(shop, order.user_id, id), difference);
  return putOrder(shop, {
    ...order,
    status: 'exchange requested',
    exchange_items: list(args, 'item_ids').toSorted(),
    exchange_new_items: list(args, 'new_item_ids').toSorted(),
    exchange_payment_method_id: id,
    exchange_price_difference: difference,
  });
}

function giveBack(shop: Shop, args: Args): Order {
  const order = deliveredOrder(shop, args);
  const id = text(args, 'payment_method_id');
  const isGift = findPayment(shop, order.user_id, id).source === 'gift_card';
  if (!isGift && id !== order.payment_history[0]?.payment_method_id) refuse('it was not paid for in this way');
  checkHas(order, list(args, 'item_ids'));
  const return_items = list(args, 'item_ids').toSorted();
  return putOrder(shop, { ...order, status: 'return requested', return_items, return_payment_method_id: id });
}

/** Items of the order, each with its replacement. */
function pairsOf(shop: Shop, order: Order, args: Args) {
  const [ids, newIds] = [list(args, 'item_ids'), list(args, 'new_item_ids')];
  checkHas(order, ids);
  if (ids.length !== newIds.length) refuse('there are more items of one kind than of the other');
  return ids.map((id, place) => {
    const old: Item = order.items.find(({ item_id }) => item_id === id) ?? refuse('the order has no such item');
    const variant = findVariant(shop, old.product_id, newIds[place] ?? '');
    if (!variant.available) refuse('the new item is not available');
    return { old, variant };
  });
}

function differenceOf(pairs: ReturnType<typeof pairsOf>): number {
  return pairs.reduce((sum, { old, variant }) => sum + (variant.price - old.price), 0);
}

function checkHas({ items }: Order, ids: readonly string[]): void {
  const count = (all: readonly string[], id: string) => all.filter((each) => each === id).length;
  const there = items.map(({ item_id }) => item_id);
  if (ids.some((id) => count(ids, id) > count(there, id))) refuse('the order has no such item');
}

function pendingOrder(shop: Shop, args: Args): Order {
  const order = findOrder(shop, text(args, 'order_id'));
  return order.status.includes('pending') ? order : refuse('the order is not pending');
}

function deliveredOrder(shop: Shop, args: Args): Order {
  const order = findOrder(shop, text(args, 'order_id'));
  return order.status === 'delivered' ? order : refuse('the order is not delivered');
}

function addressOf(args: Args): Address {
  const [address1, address2, city, state, country, zip] = ADDRESS.map((name) => text(args, name));
  return {
    address1: address1 ?? '',
    address2: address2 ?? '',
    city: city ?? '',
    state: state ?? '',
    country: country ?? '',
    zip: zip ?? '',
  };
}

function text(args: Args, name: string): string {
  const value = args[name];
  return typeof value === 'string' ? value : refuse(`"${name}" is missing`);
}

function list(args: Args, name: string): string[] {
  const value = args[name];
  return Array.isArray(value) ? value.map(String) : refuse(`"${name}" is missing`);
}

function isSame(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}
